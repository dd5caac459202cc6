//! A call written down while it runs, to be run again.

use std::fmt;
use std::sync::Arc;

use seawall_engine::{Action, Call, Fact, KeyGuards, Policy, Request, Time, Trace};

use crate::panicked;

/// Who wants the trace of a call that is over.
#[derive(Clone)]
pub(crate) struct Recorder<'a>(Arc<dyn Fn(Trace) + Send + Sync + 'a>);

impl<'a> Recorder<'a> {
    pub(crate) fn new(hook: impl Fn(Trace) + Send + Sync + 'a) -> Self {
        Self(Arc::new(hook))
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// The trace of one call, and who wants it.
pub(crate) struct Recording<'a> {
    recorder: Recorder<'a>,
    about: String,
    /// From the call's beginning to its end.
    trace: Option<Trace>,
}

impl<'a> Recording<'a> {
    /// Of a call that did not begin yet; `about` is for people.
    pub(crate) fn new(recorder: &Recorder<'a>, about: String) -> Self {
        Self {
            recorder: recorder.clone(),
            about,
            trace: None,
        }
    }

    #[cold]
    pub(crate) fn begin(&mut self, policy: &Policy, request: Request, seed: u64, began: Time) {
        let about = std::mem::take(&mut self.about);
        self.trace = Some(Trace {
            about,
            ..Trace::new(policy, request, seed, began)
        });
    }

    /// The call is over. A hook that panics has harmed nobody: the call's end is what it is.
    #[cold]
    pub(crate) fn end(&mut self) {
        if let Some(trace) = self.trace.take() {
            let _ = panicked::caught(|| (self.recorder.0)(trace));
        }
    }
}

/// A call in its driver's hands: all that it is told and asked goes through here, so that a trace
/// lacks nothing.
pub(crate) struct Told<'c> {
    call: &'c mut Call,
    policy: &'c Policy,
    guards: &'c KeyGuards,
    trace: Option<&'c mut Trace>,
}

impl<'c> Told<'c> {
    #[inline]
    pub(crate) fn new(
        call: &'c mut Call,
        policy: &'c Policy,
        guards: &'c KeyGuards,
        recording: Option<&'c mut Recording<'_>>,
    ) -> Self {
        Self {
            call,
            policy,
            guards,
            trace: recording.and_then(|recording| recording.trace.as_mut()),
        }
    }

    #[inline]
    pub(crate) fn fact(&mut self, now: Time, fact: Fact) {
        match &mut self.trace {
            None => self.call.fact(self.policy, self.guards, now, fact),
            Some(trace) => fact_written(trace, self.call, self.guards, now, fact),
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, now: Time) -> Action {
        match &mut self.trace {
            None => self.call.poll(self.policy, self.guards, now),
            Some(trace) => poll_written(trace, self.call, self.guards, now),
        }
    }
}

// Kept out of the drivers' loops, which most calls run unrecorded.

#[cold]
#[inline(never)]
fn fact_written(trace: &mut Trace, call: &mut Call, guards: &KeyGuards, now: Time, fact: Fact) {
    trace.fact(call, guards, now, fact);
}

#[cold]
#[inline(never)]
fn poll_written(trace: &mut Trace, call: &mut Call, guards: &KeyGuards, now: Time) -> Action {
    trace.poll(call, guards, now)
}
