//! A call under a driver that does as it likes, and what must hold whatever that is.

use std::time::Duration;

use seawall_engine::{
    Abandoned, Action, Call, Ending, Fact, Finish, Kind, Outcome, Over, Phase, Policy, Request,
    Settled, Share, Start, Time, Trace, Wait,
};

use crate::chance::Chance;
use crate::ledger::Ledger;

pub(crate) struct Watched {
    chance: Chance,
    ledger: Ledger,
    policy: Policy,
    call: Call,
    pub(crate) trace: Trace,
    now: Time,
    /// The request as the engine knows it.
    request: Request,
    flying: Vec<u32>,
    sent: u32,
    hedges: u32,
    /// The last attempt that ended: whether the driver has its result.
    last: Option<(u32, bool)>,
    failed: Option<Settled>,
    write_failed: bool,
    /// The end of what the server asked for.
    not_before: Time,
    cancelled: bool,
    finished: Option<Finish>,
    wait: Wait,
}

impl Watched {
    pub(crate) fn new(seed: u64) -> Self {
        let chance = Chance::new(seed);
        let (policy, request) = (chance.policy(), chance.request());
        let now = Time::from_nanos(chance.below(1_000_000_000));
        Self {
            ledger: Ledger::new(seed),
            call: Call::new(&policy, request, seed, now),
            trace: Trace::new(&policy, request, seed, now),
            chance,
            policy,
            now,
            request,
            flying: Vec::new(),
            sent: 0,
            hedges: 0,
            last: None,
            failed: None,
            write_failed: false,
            not_before: Time::ZERO,
            cancelled: false,
            finished: None,
            wait: Wait {
                until: now,
                drain: false,
                ticket: 0,
            },
        }
    }

    /// Runs the call to its end, and gives how many retries and hedges it sent.
    pub(crate) fn run(&mut self) -> (u64, u64) {
        self.poll();
        let mut steps = 0;
        while self.finished.is_none() {
            steps += 1;
            assert!(steps < 5000, "a call that does not end");
            if self.chance.percent(2) {
                let more = self.chance.up_to(Duration::from_secs(2));
                self.ledger
                    .cooldown
                    .set(self.ledger.cooldown.get().max(self.now.after(more)));
            }
            if self.happen() {
                break;
            }
            // Facts of one instant may come before the next poll.
            if !self.chance.percent(5) {
                self.poll();
            }
        }
        self.ledger.assert_settled(self.sent > 0);
        self.assert_report();
        let repeats = u64::from(self.sent.saturating_sub(1));
        (repeats - u64::from(self.hedges), self.hedges.into())
    }

    /// Something happens, at some time. True when the driver is dropped.
    fn happen(&mut self) -> bool {
        let soon = self.now.after(Duration::from_secs(60));
        let soon = self.wait.until.clamp(self.now, soon);
        match self.chance.below(100) {
            0..45 if !self.flying.is_empty() => {
                self.now = self.now.after(self.chance.up_to(soon - self.now));
                let number = self.chance.one(&self.flying);
                self.end(number, self.chance.settled());
            }
            45 if self.chance.percent(40) => self.cancel(),
            46 if self.chance.percent(40) => {
                self.fact(Fact::Dropped);
                return true;
            }
            47..50 => {
                let replayable = self.chance.percent(70);
                self.request.replayable &= replayable || self.over();
                self.fact(Fact::Replayable(replayable));
            }
            50..55 if self.wait.drain => self.fact(Fact::Drained),
            55..65 if self.wait.ticket != 0 && self.ledger.ticket.get() != 0 => {
                self.now = self.now.after(self.chance.up_to(soon - self.now));
                self.ledger.admit();
                self.fact(Fact::Admitted);
            }
            65..67 if !self.flying.is_empty() => {
                let number = self.chance.one(&self.flying);
                self.fact(Fact::Progressed { number });
            }
            // The late end of an attempt that is long gone.
            67 => self.fact(Fact::Ended {
                number: 77,
                settled: self.chance.settled(),
            }),
            // Asked before anything is due.
            68..73 => self.now = self.now.after(self.chance.up_to(soon - self.now)),
            // Late: the machine was busy.
            73..78 => self.now = soon.after(self.chance.up_to(Duration::from_secs(1))),
            _ if self.wait.until.is_never() => match self.flying.first() {
                Some(number) => self.end(*number, self.chance.settled()),
                None => self.cancel(),
            },
            _ => self.now = self.wait.until.max(self.now),
        }
        false
    }

    fn cancel(&mut self) {
        self.cancelled |= !self.over();
        self.fact(Fact::Cancelled);
    }

    fn end(&mut self, number: u32, settled: Settled) {
        self.flying.retain(|flying| *flying != number);
        if !self.over() {
            self.last = Some((number, true));
            self.note(&settled);
        }
        self.fact(Fact::Ended { number, settled });
    }

    /// The engine has decided, though it may not have been asked since.
    fn over(&self) -> bool {
        self.call.report().ending().is_some()
    }

    fn note(&mut self, settled: &Settled) {
        self.request.replayable &= settled.replayable;
        self.write_failed |= self
            .failed
            .as_ref()
            .is_some_and(|failed| failed.write_failed);
        self.failed = Some(settled.clone());
        let failure = matches!(
            settled.outcome,
            Outcome::Transient(_) | Outcome::Throttled(_)
        );
        if let Some(asked) = settled
            .hint
            .wait
            .filter(|_| failure && self.policy.retry_after.honor)
        {
            let until = self.now.after(asked.min(self.policy.retry_after.max));
            self.not_before = self.not_before.max(until);
        }
    }

    fn fact(&mut self, fact: Fact) {
        self.trace
            .fact(&mut self.call, &self.ledger, self.now, fact);
    }

    fn poll(&mut self) {
        loop {
            match self.trace.poll(&mut self.call, &self.ledger, self.now) {
                Action::Start(start) => self.started(start),
                Action::Abandon { number, why } => {
                    // Of a call that is over, what ended since the last poll is abandoned too.
                    assert!(self.over() || self.flying.contains(&number), "{number}");
                    self.flying.retain(|flying| *flying != number);
                    // A timeout is an end of its own; what a finished call abandons is not.
                    if why == Abandoned::TimedOut {
                        self.last = Some((number, false));
                        self.note(&Settled::new(Outcome::Transient(Phase::Ambiguous)));
                    }
                }
                Action::Wait(wait) => {
                    assert!(wait.until > self.now, "a wait that is over: {wait:?}");
                    self.wait = wait;
                    break;
                }
                Action::Finish(finish) => {
                    self.assert_finish(&finish);
                    self.finished = Some(finish);
                    break;
                }
            }
        }
    }

    fn started(&mut self, start: Start) {
        let policy = &self.policy;
        self.ledger.started();
        assert!(
            !self.cancelled && self.finished.is_none(),
            "a send after the end"
        );
        self.sent += 1;
        assert_eq!(start.number, self.sent);
        assert!(self.sent <= self.most(), "more than max_attempts");
        if policy.deadline.is_some() {
            let latest = self.call.deadline();
            assert!(self.now < latest, "a send at the deadline");
            assert!(
                latest - self.now >= policy.min_attempt,
                "a send with too little time left"
            );
        }
        let timeout = policy
            .attempt_timeout
            .map_or(Time::NEVER, |t| self.now.after(t));
        assert_eq!(start.timeout_at, timeout.min(self.call.deadline()));
        let safe = self.request.idempotent || policy.retry_unsafe_methods;
        match start.kind {
            Kind::First => assert_eq!(start.number, 1),
            Kind::Retry => {
                assert!(self.flying.is_empty(), "a retry beside another attempt");
                let failed = self.failed.as_ref().expect("a retry follows a failure");
                let phase = failed
                    .outcome
                    .phase()
                    .expect("a retry follows what may pass");
                assert!(safe || phase == Phase::Unprocessed, "an unsafe repeat");
                assert!(self.request.replayable, "a repeat without its body");
                assert!(!failed.hint.forbids, "a repeat that the server forbade");
                assert!(!failed.write_failed || !self.write_failed);
            }
            Kind::Hedge => {
                self.hedges += 1;
                assert!(
                    !self.flying.is_empty() && self.request.concurrent,
                    "a hedge alone"
                );
                assert!(safe && self.request.replayable, "an unsafe hedge");
                assert!(self.hedges <= policy.hedge.as_ref().unwrap().max);
            }
        }
        if start.kind != Kind::First {
            assert!(self.now >= self.not_before, "earlier than the server asked");
        }
        let obeys = match policy.retry_after.share {
            Share::Off => false,
            Share::Retries => start.kind != Kind::First,
            Share::All => true,
        };
        assert!(
            !obeys || self.ledger.cooldown.get() <= self.now,
            "a send into the cooldown"
        );
        self.flying.push(start.number);
    }

    fn most(&self) -> u32 {
        let limit = self.policy.max_attempts.limit();
        if self.request.nested { 1 } else { limit }
    }

    fn assert_finish(&self, finish: &Finish) {
        assert_eq!(self.flying, [0; 0], "finished with attempts in flight");
        assert_eq!(self.cancelled, finish.ending == Ending::Cancelled);
        let outcome = self.failed.as_ref().map(|failed| failed.outcome);
        match finish.ending {
            Ending::Success => assert_eq!(outcome, Some(Outcome::Success)),
            Ending::Permanent => assert_eq!(outcome, Some(Outcome::Permanent)),
            Ending::Cancelled => assert!(self.cancelled && finish.result.is_none()),
            Ending::Deadline => assert!(self.policy.deadline.is_some()),
            _ => {}
        }
        // The last attempt to end decides (E1), unless what was in flight was cut by the deadline.
        if let (Some((number, true)), Some(result)) = (self.last, finish.result) {
            assert_eq!(number, result);
        }
        if matches!(self.last, None | Some((_, false))) {
            assert_eq!(finish.result, None);
        }
        if self.policy.hedge.is_none() {
            self.assert_first_reason(finish.ending);
        }
    }

    /// E5: of the reasons that a failure alone gives, the first that holds.
    fn assert_first_reason(&self, ending: Ending) {
        let Some(failed) = &self.failed else { return };
        let Some(phase) = failed.outcome.phase() else {
            return;
        };
        let (policy, hint) = (&self.policy, &failed.hint);
        let safe = self.request.idempotent || policy.retry_unsafe_methods;
        let asked = hint
            .wait
            .filter(|_| policy.retry_after.honor)
            .unwrap_or_default();
        let first = if !self.request.replayable {
            "body_not_replayable"
        } else if !safe && phase == Phase::Ambiguous || failed.write_failed && self.write_failed {
            "not_repeatable"
        } else if self.sent >= self.most() {
            "attempts_exhausted"
        } else if hint.forbids {
            "server_forbids"
        } else if asked > policy.retry_after.max && policy.retry_after.over == Over::End {
            "retry_after_too_long"
        } else {
            // Only guards and the clock are left, or a wish that the deadline cut short.
            let alone = [
                "body_not_replayable",
                "not_repeatable",
                "attempts_exhausted",
                "server_forbids",
            ];
            assert!(
                !alone.contains(&ending.name()),
                "{ending:?} without its reason"
            );
            return;
        };
        // The deadline may have cut an attempt that ended nothing yet; a cancel is the caller's.
        let elsewhere = matches!(ending, Ending::Cancelled | Ending::Deadline);
        assert!(
            elsewhere || ending.name() == first,
            "{ending:?} before {first}"
        );
    }

    fn assert_report(&self) {
        let report = self.call.report();
        let numbers: Vec<_> = report.attempts().map(|record| record.number).collect();
        assert!(numbers.is_sorted() && numbers.len() <= 32, "{numbers:?}");
        assert_eq!(report.attempts_sent(), self.sent);
        assert_eq!(numbers.len() as u32 + report.attempts_omitted(), self.sent);
        assert!(report.ending().is_some());
        assert!(report.elapsed() <= self.now - report.started());
    }
}
