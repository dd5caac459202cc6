//! Guards that answer by chance and keep books: whatever they hand out has to come back, once.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::task::Waker;
use std::time::Duration;

use seawall_engine::{Answer, Guard, Kind, Notice, Question, Time};

use crate::chance::Chance;

pub(crate) struct Ledger {
    chance: Chance,
    /// Guards that often refuse; else they let nearly everything pass.
    harsh: bool,
    serial: Cell<u64>,
    /// The end of the cooldown that all calls share.
    pub(crate) cooldown: Cell<Time>,
    tokens: RefCell<HashSet<u64>>,
    permits: RefCell<HashSet<u64>>,
    reserved: Cell<Option<Time>>,
    /// A place in the bulkhead that no attempt has yet.
    place: Cell<bool>,
    /// Places of attempts in flight.
    places: Cell<i64>,
    pub(crate) ticket: Cell<u64>,
    calls: Cell<i64>,
    ended: Cell<bool>,
}

impl Ledger {
    pub(crate) fn new(seed: u64) -> Self {
        let chance = Chance::new(seed ^ 0xfeed);
        Self {
            harsh: chance.percent(25),
            chance,
            serial: Cell::new(0),
            cooldown: Cell::new(Time::ZERO),
            tokens: RefCell::default(),
            permits: RefCell::default(),
            reserved: Cell::new(None),
            place: Cell::new(false),
            places: Cell::new(0),
            ticket: Cell::new(0),
            calls: Cell::new(0),
            ended: Cell::new(false),
        }
    }

    /// An attempt was sent: it uses what was handed out for it.
    pub(crate) fn started(&self) {
        assert!(self.place.take(), "sent without a place in the bulkhead");
        assert_eq!(self.ticket.get(), 0, "sent while in the queue");
        self.reserved.take();
        self.places.set(self.places.get() + 1);
    }

    /// The turn in the bulkhead's queue has come.
    pub(crate) fn admit(&self) {
        assert!(!self.place.replace(true));
        assert_ne!(self.ticket.take(), 0);
    }

    /// The call is over: nothing may be left.
    pub(crate) fn assert_settled(&self, sent: bool) {
        assert!(
            self.tokens.borrow().is_empty(),
            "tokens {:?}",
            self.tokens.borrow()
        );
        assert!(
            self.permits.borrow().is_empty(),
            "permits {:?}",
            self.permits.borrow()
        );
        assert_eq!(self.reserved.get(), None, "a reservation is left");
        assert!(
            !self.place.get() && self.places.get() == 0,
            "a place is left"
        );
        assert_eq!(self.ticket.get(), 0, "a ticket is left");
        assert_eq!(self.calls.get(), 0, "a call that never ended");
        assert_eq!(
            self.ended.get(),
            sent,
            "ended is told iff something was sent"
        );
    }

    fn refuses(&self, percent: u64) -> bool {
        self.harsh && self.chance.percent(percent)
    }

    fn hand_out(&self, to: &RefCell<HashSet<u64>>) -> Answer {
        self.serial.set(self.serial.get() + 1);
        to.borrow_mut().insert(self.serial.get());
        Answer::Granted(self.serial.get())
    }
}

impl Guard for Ledger {
    fn ask(&self, question: Question, now: Time) -> Answer {
        let refused = || Answer::Refused(now.after(Duration::from_secs(1)));
        match question {
            Question::Cooldown => match self.cooldown.get() {
                end if end > now || self.chance.percent(50) => Answer::Until(end),
                _ => Answer::Free,
            },
            Question::Budget(_) if self.refuses(10) => refused(),
            Question::Budget(_) => self.hand_out(&self.tokens),
            Question::Throttle(_) | Question::Look | Question::LookAhead(_) if self.refuses(3) => {
                refused()
            }
            Question::Throttle(_) | Question::Look | Question::LookAhead(_) => Answer::Free,
            Question::Limiter(latest) => match self.chance.below(10) {
                _ if self.refuses(10) => refused(),
                1..=3 => {
                    let at = now
                        .after(self.chance.up_to(Duration::from_secs(2)))
                        .min(latest);
                    assert_eq!(self.reserved.replace(Some(at)), None, "two reservations");
                    Answer::Until(at)
                }
                _ => Answer::Free,
            },
            Question::Bulkhead => {
                assert!(
                    !self.place.get() && self.ticket.get() == 0,
                    "asked with a place in hand"
                );
                match self.chance.below(20) {
                    _ if self.refuses(5) => refused(),
                    1..=4 => {
                        self.serial.set(self.serial.get() + 1);
                        self.ticket.set(self.serial.get());
                        Answer::Queued(self.serial.get())
                    }
                    _ => {
                        self.place.set(true);
                        Answer::Free
                    }
                }
            }
            Question::Permit if self.refuses(3) => refused(),
            Question::Permit => self.hand_out(&self.permits),
            Question::HedgeDelay if self.chance.percent(50) => refused(),
            Question::HedgeDelay => Answer::After(self.chance.up_to(Duration::from_secs(1))),
        }
    }

    fn tell(&self, notice: Notice, _: Time) {
        match notice {
            Notice::First => self.calls.set(self.calls.get() + 1),
            Notice::Settled {
                permit, cost, kind, ..
            } => {
                assert!(
                    self.permits.borrow_mut().remove(&permit),
                    "permit {permit} twice"
                );
                let paid = self.tokens.borrow_mut().remove(&cost);
                assert_eq!(paid, kind != Kind::First, "token {cost} of a {kind:?}");
                self.places.set(self.places.get() - 1);
                assert!(self.places.get() >= 0);
            }
            Notice::TokenBack { cost, .. } => {
                assert!(self.tokens.borrow_mut().remove(&cost), "token {cost} twice");
            }
            Notice::ReservationBack(at) => assert_eq!(self.reserved.take(), Some(at)),
            Notice::PlaceBack => assert!(self.place.take(), "a place given back twice"),
            Notice::TicketBack(ticket) => assert_eq!(self.ticket.take(), ticket),
            Notice::CoolDown(until) => self.cooldown.set(self.cooldown.get().max(until)),
            Notice::Ended => {
                assert!(!self.ended.replace(true), "ended twice");
                self.calls.set(self.calls.get() - 1);
            }
        }
    }

    fn poll_ticket(&self, _: u64, _: &Waker) -> bool {
        unreachable!("the engine leaves waiting to the driver")
    }
}
