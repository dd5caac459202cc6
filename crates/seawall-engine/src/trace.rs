//! A call as plain data: what happened, what the guards answered, what was done (section 1).

use core::cell::RefCell;
use core::mem;
use core::task::Waker;
use std::string::String;
use std::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{
    Action, Answer, Call, Finish, Guard, Notice, Policy, Question, Request, Settled, Time,
    Unguarded,
};

/// One call, complete: enough to run it again and see every decision once more.
///
/// The format of the engine's own tests, and of an incident replayed later: [`replay`](Self::replay)
/// of a recorded trace gives an equal one. Every driver of `seawall` makes one of a live call with
/// `record`. Only a policy with a [`Backoff::custom`](crate::Backoff::custom) cannot be written to a
/// file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// What it shows, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The policy of the call.
    #[serde(default)]
    pub policy: Policy,
    /// The request, as far as the engine knows it.
    #[serde(default)]
    pub request: Request,
    /// The seed of its random draws.
    #[serde(default)]
    pub seed: u64,
    /// When it began.
    #[serde(default)]
    pub began: Time,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// One moment of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub at: Time,
    /// What happened.
    #[serde(default)]
    pub fact: Fact,
    /// What the guards were asked then, and answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Exchange>,
    /// What the guards were told then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Notice>,
    /// What was to be done, up to and with the wait or the finish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

/// A fact that a driver feeds to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Time went on, nothing else.
    #[default]
    Time,
    /// The caller gave the call up.
    Cancelled,
    /// An attempt ended.
    Ended {
        /// Which.
        number: u32,
        /// What it came to.
        settled: Settled,
    },
    /// The held response was drained.
    Drained,
    /// The bulkhead's ticket came up.
    Admitted,
    /// A piece of the body arrived.
    Progressed {
        /// Of which attempt.
        number: u32,
    },
    /// Whether the body can still be sent again.
    Replayable(bool),
    /// The driver was dropped.
    Dropped,
}

/// A question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// What the call asked.
    pub question: Question,
    /// What the guard answered.
    pub answer: Answer,
}

impl Trace {
    /// A trace with nothing in it yet, of a call that begins at `began`.
    pub fn new(policy: &Policy, request: Request, seed: u64, began: Time) -> Self {
        Self {
            about: String::new(),
            policy: policy.clone(),
            request,
            seed,
            began,
            steps: Vec::new(),
        }
    }

    /// Runs the same facts through a new [`Call`], with the guards' answers as they stand here,
    /// and gives the trace of that run. A question that has no answer here is answered as by
    /// [`Unguarded`]. The call is asked for as many actions as each step holds: a driver may feed
    /// a fact before it did all that the one before called for.
    pub fn replay(&self) -> Self {
        let mut call = Call::new(&self.policy, self.request, self.seed, self.began);
        let mut again = Self {
            steps: Vec::new(),
            ..self.clone()
        };
        for step in &self.steps {
            let script = Script {
                answers: RefCell::new(step.asked.clone()),
            };
            if step.fact != Fact::Time {
                again.fact(&mut call, &script, step.at, step.fact.clone());
            }
            for _ in &step.actions {
                again.poll(&mut call, &script, step.at);
            }
        }
        again
    }

    /// Feeds `fact` to `call`, does nothing else, and writes down what it asked and told.
    pub fn fact<G: Guard>(&mut self, call: &mut Call, guard: &G, now: Time, fact: Fact) {
        let recorder = Recorder::new(guard);
        call.fact(&self.policy, &recorder, now, fact.clone());
        let (asked, told) = recorder.taken();
        self.steps.push(Step {
            at: now,
            fact,
            asked,
            told,
            actions: Vec::new(),
        });
    }

    /// Polls `call` once, and writes down what it asked, told and wants done.
    pub fn poll<G: Guard>(&mut self, call: &mut Call, guard: &G, now: Time) -> Action {
        let recorder = Recorder::new(guard);
        let action = call.poll(&self.policy, &recorder, now);
        let (asked, told) = recorder.taken();
        match self.steps.last_mut() {
            // A further poll of the same moment belongs to the fact before it.
            Some(step) if step.at == now && !rests(step) => {
                step.asked.extend(asked);
                step.told.extend(told);
                step.actions.push(action);
            }
            _ => self.steps.push(Step {
                at: now,
                fact: Fact::Time,
                asked,
                told,
                actions: vec![action],
            }),
        }
        action
    }

    /// How the call ended; `None` when it was dropped on its way, or is not over.
    pub fn finish(&self) -> Option<&Finish> {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.rev().find_map(|action| match action {
            Action::Finish(finish) => Some(finish),
            _ => None,
        })
    }
}

/// True when a step ended with a wait or the finish: what follows is another step.
fn rests(step: &Step) -> bool {
    matches!(
        step.actions.last(),
        Some(Action::Wait(_) | Action::Finish(_))
    )
}

/// Passes everything on, and writes it down.
struct Recorder<'a, G> {
    guard: &'a G,
    log: RefCell<(Vec<Exchange>, Vec<Notice>)>,
}

impl<'a, G: Guard> Recorder<'a, G> {
    fn new(guard: &'a G) -> Self {
        Self {
            guard,
            log: RefCell::default(),
        }
    }

    fn taken(self) -> (Vec<Exchange>, Vec<Notice>) {
        self.log.into_inner()
    }
}

impl<G: Guard> Guard for Recorder<'_, G> {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let answer = self.guard.ask(question, now);
        self.log.borrow_mut().0.push(Exchange { question, answer });
        answer
    }

    fn tell(&self, notice: Notice, now: Time) {
        self.guard.tell(notice, now);
        self.log.borrow_mut().1.push(notice);
    }

    fn poll_ticket(&self, ticket: u64, waker: &Waker) -> bool {
        self.guard.poll_ticket(ticket, waker)
    }
}

/// Answers from a list: the first answer left to a question of the same kind.
struct Script {
    answers: RefCell<Vec<Exchange>>,
}

impl Guard for Script {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let mut answers = self.answers.borrow_mut();
        let same = |exchange: &Exchange| {
            mem::discriminant(&exchange.question) == mem::discriminant(&question)
        };
        match answers.iter().position(same) {
            Some(place) => answers.remove(place).answer,
            None => Unguarded.ask(question, now),
        }
    }

    fn tell(&self, _: Notice, _: Time) {}

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
