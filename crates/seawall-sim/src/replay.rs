//! Production is simulation: a recorded call, run again on virtual time.

use core::cell::RefCell;
use core::mem::discriminant;
use core::task::Waker;
use std::collections::VecDeque;

use seawall_engine::{
    Answer, Call, Exchange, Fact, Guard, Notice, Question, Time, Trace, Unguarded,
};

use crate::calendar::Calendar;

/// Runs a recorded call through the simulator's queue of events: what happened then happens again
/// at its time, the guards answer as they did, and the decisions are written down anew. Equal to
/// `trace` byte for byte, if the engine decides as it did when the call was recorded: by `record`, of
/// any driver of `seawall`.
///
/// ```
/// use seawall_engine::{Call, Fact, Outcome, Policy, Request, Settled, Time, Trace, Unguarded};
///
/// let policy = Policy::default();
/// let mut call = Call::new(&policy, Request::default(), 7, Time::ZERO);
/// let mut trace = Trace::new(&policy, Request::default(), 7, Time::ZERO);
/// trace.poll(&mut call, &Unguarded, Time::ZERO);
/// trace.poll(&mut call, &Unguarded, Time::ZERO);
/// let settled = Settled::new(Outcome::Success);
/// let at = Time::from_nanos(3_000_000);
/// trace.fact(&mut call, &Unguarded, at, Fact::Ended { number: 1, settled });
/// trace.poll(&mut call, &Unguarded, at);
/// assert_eq!(seawall_sim::replay(&trace), trace);
/// ```
pub fn replay(trace: &Trace) -> Trace {
    let mut calendar = Calendar::default();
    let mut latest = Time::ZERO;
    for (number, step) in trace.steps.iter().enumerate() {
        // A clock that was read on two cores may seem to have gone back; the steps did not.
        latest = latest.max(step.at);
        calendar.push(latest.as_nanos(), 0, number as u32);
    }
    let mut call = Call::new(&trace.policy, trace.request, trace.seed, trace.began);
    let mut again = Trace {
        steps: Vec::new(),
        ..trace.clone()
    };
    while let Some(event) = calendar.pop() {
        let step = &trace.steps[event.index as usize];
        let now = step.at;
        let guard = Remembered {
            answers: RefCell::new(step.asked.iter().copied().collect()),
        };
        if step.fact != Fact::Time {
            again.fact(&mut call, &guard, now, step.fact.clone());
        }
        for _ in &step.actions {
            again.poll(&mut call, &guard, now);
        }
    }
    again
}

/// Answers as it was answered then: each kind of question in its order.
struct Remembered {
    answers: RefCell<VecDeque<Exchange>>,
}

impl Guard for Remembered {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let mut answers = self.answers.borrow_mut();
        answers
            .iter()
            .position(|exchange| discriminant(&exchange.question) == discriminant(&question))
            .and_then(|at| answers.remove(at))
            .map_or_else(|| Unguarded.ask(question, now), |exchange| exchange.answer)
    }

    fn tell(&self, _: Notice, _: Time) {}

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
