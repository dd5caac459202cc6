//! A guard that answers as it is told to, and writes down what it was asked and told.

use std::cell::RefCell;
use std::task::Waker;

use seawall_engine::{Answer, Guard, Notice, Question, Time, Unguarded};

pub(crate) struct Scripted<F> {
    answers: F,
    pub(crate) asked: RefCell<Vec<Question>>,
    pub(crate) told: RefCell<Vec<Notice>>,
}

impl<F: Fn(Question, Time) -> Option<Answer>> Scripted<F> {
    /// `None` answers as with no guards.
    pub(crate) fn new(answers: F) -> Self {
        Self {
            answers,
            asked: RefCell::default(),
            told: RefCell::default(),
        }
    }

    /// What was asked, by name.
    pub(crate) fn order(&self) -> Vec<&'static str> {
        let name = |question: &Question| match question {
            Question::Cooldown => "cooldown",
            Question::Budget(_) => "budget",
            Question::Throttle(_) => "throttle",
            Question::LookAhead(_) => "look_ahead",
            Question::Look => "look",
            Question::Limiter(_) => "limiter",
            Question::Bulkhead => "bulkhead",
            Question::Permit => "permit",
            Question::HedgeDelay => "hedge_delay",
        };
        self.asked.borrow().iter().map(name).collect()
    }
}

impl<F: Fn(Question, Time) -> Option<Answer>> Guard for Scripted<F> {
    fn ask(&self, question: Question, now: Time) -> Answer {
        self.asked.borrow_mut().push(question);
        (self.answers)(question, now).unwrap_or_else(|| Unguarded.ask(question, now))
    }

    fn tell(&self, notice: Notice, _: Time) {
        self.told.borrow_mut().push(notice);
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        true
    }
}
