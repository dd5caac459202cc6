//! The one loop that drives a [`Call`] in async code: it polls attempts, sleeps, and obeys.
//!
//! What an attempt is, how it is judged and what becomes of its result is the business of a
//! [`Work`]: the generic driver has one, the HTTP driver another. No decision is made here.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use seawall_engine::{
    Abandoned, Action, Call, Fact, Finish, Guard, KeyGuards, Policy, Report, Request, Settled,
    Start, Time,
};
use tokio::time::{Instant, Sleep};

use crate::cancel::{CancelToken, Watch};
use crate::clock::{self, Anchor};
use crate::nesting;
use crate::recording::{Recorder, Recording, Told};

/// The attempts of one call, whatever they are.
pub(crate) trait Work {
    /// Begins an attempt. It is polled right after.
    fn start(self: Pin<&mut Self>, start: Start, now: Time);

    /// Drops an attempt that is in flight.
    fn abandon(self: Pin<&mut Self>, number: u32, why: Abandoned);

    /// An attempt that has ended, and what it came to; its result stays inside, in the place of
    /// the one before.
    fn poll_ended(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(u32, Settled)>;

    /// Reads the held response's body; ready when there is nothing more to read.
    fn poll_drained(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;

    /// The number of an attempt of which a piece of the body arrived since this was last asked.
    fn progressed(self: Pin<&mut Self>) -> Option<u32> {
        None
    }

    /// Whether the request's body can still be sent again.
    fn is_replayable(&self) -> bool {
        true
    }

    /// True when the caller of [`Driver::poll`] makes the attempt that was just begun: the driver
    /// then comes back to it, pending, without having asked to be woken.
    fn is_made_outside(&self) -> bool {
        false
    }
}

/// So many attempts that end at once may follow each other before the other tasks of the thread
/// have their turn: a failure that takes no time, after which nothing is waited for, must not keep
/// the caller from giving the call up.
const ATTEMPTS_IN_A_ROW: u8 = 16;

pin_project! {
    /// A call on its way: the engine's half of it.
    pub(crate) struct Driver<'a> {
        policy: &'a Policy,
        guards: Option<&'a KeyGuards>,
        phase: Phase,
        // Behind a pointer, as most calls have none.
        extras: Option<Box<Extras<'a>>>,
        draining: bool,
        over: bool,
        // Attempts begun since the call last was pending.
        in_a_row: u8,
        // Set once something was pending: from then on the runtime's clock is asked.
        anchor: Option<Anchor>,
        sleep_until: Time,
        #[pin]
        sleep: Option<Sleep>,
    }

    impl PinnedDrop for Driver<'_> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.over {
                return;
            }
            if let Phase::Going(call) = this.phase {
                let now = time(this.anchor);
                let guards = this.guards.get_or_insert_with(|| this.policy.guards(now));
                let mut recording = recording(this.extras);
                let mut call = Told::new(call, this.policy, guards, recording.as_deref_mut());
                call.fact(now, Fact::Dropped);
                if let Some(recording) = recording {
                    recording.end();
                }
            }
        }
    }
}

// A call is held inline so that nothing is allocated for it.
#[allow(clippy::large_enum_variant)]
enum Phase {
    /// Not polled yet.
    New {
        request: Request,
        seed: Option<u64>,
    },
    Going(Call),
}

/// What few calls have.
#[derive(Default)]
struct Extras<'a> {
    cancel: Option<Watch>,
    recording: Option<Recording<'a>>,
}

impl<'a> Driver<'a> {
    /// A call after `policy`, not yet begun. Without `guards` it uses the policy's own.
    #[inline]
    pub(crate) fn new(
        policy: &'a Policy,
        guards: Option<&'a KeyGuards>,
        request: Request,
        seed: Option<u64>,
    ) -> Self {
        Self {
            policy,
            guards,
            phase: Phase::New { request, seed },
            extras: None,
            draining: false,
            over: false,
            in_a_row: 0,
            anchor: None,
            sleep_until: Time::ZERO,
            sleep: None,
        }
    }

    /// Lets `token` cancel the call.
    #[inline]
    pub(crate) fn cancelled_by(mut self, token: Option<&CancelToken>) -> Self {
        if let Some(token) = token {
            self.extras.get_or_insert_default().cancel = Some(Watch::over(token));
        }
        self
    }

    /// Writes the call down for `recorder`; `about` says for people what was called.
    #[inline]
    pub(crate) fn recorded_by(
        mut self,
        recorder: Option<&Recorder<'a>>,
        about: impl FnOnce() -> String,
    ) -> Self {
        if let Some(recorder) = recorder {
            self.extras.get_or_insert_default().recording = Some(Recording::new(recorder, about()));
        }
        self
    }

    /// Goes on until the call is over.
    #[inline]
    pub(crate) fn poll<W: Work>(
        self: Pin<&mut Self>,
        mut work: Pin<&mut W>,
        context: &mut Context<'_>,
    ) -> Poll<Finish> {
        let mut this = self.project();
        let policy = *this.policy;
        // Not read before it is needed: an attempt that has ended needs it later.
        let mut now = None;
        if let Phase::New { request, seed } = this.phase {
            let begun = clock::quick();
            let request = Request {
                nested: request.nested || nesting::inside(),
                ..*request
            };
            let seed = seed.unwrap_or_else(|| fastrand::u64(..));
            *this.phase = Phase::Going(Call::new(policy, request, seed, begun));
            if let Some(recording) = recording(this.extras) {
                recording.begin(policy, request, seed, begun);
            }
            this.guards.get_or_insert_with(|| policy.guards(begun));
            now = Some(begun);
        }
        let (Phase::Going(call), Some(guards)) = (this.phase, *this.guards) else {
            return Poll::Pending;
        };
        let is_cancelled = this.extras.as_ref().is_some_and(|extras| {
            let watch = extras.cancel.as_ref();
            watch.is_some_and(|watch| watch.poll(context.waker()))
        });
        let mut call = Told::new(call, policy, guards, recording(this.extras));
        if is_cancelled {
            let at = *now.get_or_insert_with(|| time(this.anchor));
            call.fact(at, Fact::Cancelled);
        }
        loop {
            while let Poll::Ready((number, settled)) = {
                let _inside = nesting::enter();
                work.as_mut().poll_ended(context)
            } {
                let ended = time(this.anchor);
                call.fact(ended, Fact::Ended { number, settled });
                now = Some(ended);
            }
            let at = *now.get_or_insert_with(|| time(this.anchor));
            if let Some(number) = work.as_mut().progressed() {
                call.fact(at, Fact::Progressed { number });
            }
            if *this.draining && work.as_mut().poll_drained(context).is_ready() {
                *this.draining = false;
                call.fact(at, Fact::Drained);
            }
            if *this.in_a_row > ATTEMPTS_IN_A_ROW {
                *this.in_a_row = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            // Before anything is decided: a hedge of a body that is gone would end the call.
            if !work.is_replayable() {
                call.fact(at, Fact::Replayable(false));
            }
            match call.poll(at) {
                Action::Start(start) => {
                    *this.draining = false;
                    *this.in_a_row += 1;
                    {
                        let _inside = nesting::enter();
                        work.as_mut().start(start, at);
                    }
                    if work.is_made_outside() {
                        return Poll::Pending;
                    }
                }
                Action::Abandon { number, why } => work.as_mut().abandon(number, why),
                Action::Finish(finish) => {
                    *this.over = true;
                    if let Some(recording) = recording(this.extras) {
                        recording.end();
                    }
                    return Poll::Ready(finish);
                }
                Action::Wait(wait) => {
                    if wait.ticket != 0 && guards.poll_ticket(wait.ticket, context.waker()) {
                        call.fact(at, Fact::Admitted);
                        continue;
                    }
                    if wait.drain != *this.draining {
                        *this.draining = wait.drain;
                        if wait.drain {
                            continue;
                        }
                    }
                    let anchor = match this.anchor {
                        Some(anchor) => anchor,
                        None => {
                            let anchor = this.anchor.insert(Anchor::new(at));
                            now = Some(anchor.time());
                            if anchor.time() >= wait.until {
                                continue;
                            }
                            anchor
                        }
                    };
                    let at = anchor.time();
                    if !sleeps(
                        this.sleep.as_mut(),
                        this.sleep_until,
                        wait.until,
                        at,
                        context,
                    ) {
                        *this.in_a_row = 0;
                        return Poll::Pending;
                    }
                    now = Some(anchor.now());
                }
            }
        }
    }

    /// The call's history, taken out; `None` before the first poll.
    pub(crate) fn take_report(self: Pin<&mut Self>) -> Option<Report> {
        match self.project().phase {
            Phase::New { .. } => None,
            Phase::Going(call) => Some(call.take_report()),
        }
    }
}

fn recording<'e, 'a>(extras: &'e mut Option<Box<Extras<'a>>>) -> Option<&'e mut Recording<'a>> {
    extras.as_mut()?.recording.as_mut()
}

/// The present moment of a call.
#[inline]
fn time(anchor: &mut Option<Anchor>) -> Time {
    match anchor {
        Some(anchor) => anchor.now(),
        None => clock::quick(),
    }
}

/// Sets the timer to `until` and polls it: true when that moment has come.
fn sleeps(
    mut sleep: Pin<&mut Option<Sleep>>,
    set_to: &mut Time,
    until: Time,
    now: Time,
    context: &mut Context<'_>,
) -> bool {
    if until.is_never() {
        sleep.set(None);
        return false;
    }
    match sleep.as_mut().as_pin_mut() {
        None => sleep.set(Some(tokio::time::sleep(clock::span(now, until)))),
        Some(timer) if *set_to != until => timer.reset(Instant::now() + clock::span(now, until)),
        Some(_) => {}
    }
    *set_to = until;
    match sleep.as_pin_mut() {
        Some(timer) => {
            let rung = timer.poll(context).is_ready();
            if rung {
                // A timer that has rung is set anew by whoever waits next.
                *set_to = Time::ZERO;
            }
            rung
        }
        None => false,
    }
}
