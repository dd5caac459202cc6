//! The bulkhead (GL): fair, bounded, and nothing leaks whatever is dropped when.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use proptest::prelude::*;
use seawall_engine::{Bulkhead, BulkheadSettings, Entry, Place, Ticket, Time};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl Bell {
    fn rung(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn bulkhead(max_concurrent: u32, max_queued: u32) -> Bulkhead {
    Bulkhead::new(&BulkheadSettings {
        max_concurrent,
        max_queued,
    })
    .unwrap()
}

fn admitted(entry: Entry) -> Place {
    match entry {
        Entry::Admitted(place) => place,
        other => panic!("{other:?}"),
    }
}

fn queued(entry: Entry) -> Ticket {
    match entry {
        Entry::Queued(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gl_a_leaver_wakes_the_first_in_line_and_only_that_one() {
    let bulkhead = bulkhead(1, 2);
    let place = admitted(bulkhead.enter(Time::ZERO));
    let (mut first, mut second) = (
        queued(bulkhead.enter(Time::from_nanos(7))),
        queued(bulkhead.enter(Time::ZERO)),
    );
    assert_eq!(first.since(), Time::from_nanos(7));
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    assert!(first.poll(&Waker::from(bells[0].clone())).is_none());
    assert!(second.poll(&Waker::from(bells[1].clone())).is_none());
    place.leave();
    assert_eq!((bells[0].rung(), bells[1].rung()), (1, 0));
    assert!(
        second.poll(Waker::noop()).is_none(),
        "the second does not overtake"
    );
    let place = first.poll(Waker::noop()).unwrap();
    assert!(first.poll(Waker::noop()).is_none(), "one ticket, one place");
    drop(first);
    assert_eq!((bulkhead.running(), bulkhead.queued()), (1, 1));
    drop(place);
    assert!(second.poll(Waker::noop()).is_some());
    drop(second);
    assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));
}

#[test]
fn gl_a_newcomer_does_not_overtake_the_line() {
    let bulkhead = bulkhead(1, 5);
    let place = admitted(bulkhead.enter(Time::ZERO));
    let mut waiting = queued(bulkhead.enter(Time::ZERO));
    drop(place);
    let newcomer = queued(bulkhead.enter(Time::ZERO));
    assert!(waiting.poll(Waker::noop()).is_some());
    drop(newcomer);
}

#[test]
fn gl_a_ticket_dropped_after_its_turn_came_unseen_passes_it_on() {
    let bulkhead = bulkhead(1, 2);
    let place = admitted(bulkhead.enter(Time::ZERO));
    let first = queued(bulkhead.enter(Time::ZERO));
    let mut second = queued(bulkhead.enter(Time::ZERO));
    let bell = Arc::new(Bell::default());
    assert!(second.poll(&Waker::from(bell.clone())).is_none());
    drop(place);
    drop(first);
    assert_eq!(bell.rung(), 1);
    assert!(second.poll(Waker::noop()).is_some());
    assert_eq!(bulkhead.running(), 0);
}

#[test]
fn gl_only_the_latest_waker_is_woken() {
    let bulkhead = bulkhead(1, 1);
    let place = admitted(bulkhead.enter(Time::ZERO));
    let mut ticket = queued(bulkhead.enter(Time::ZERO));
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    assert!(ticket.poll(&Waker::from(bells[0].clone())).is_none());
    assert!(ticket.poll(&Waker::from(bells[1].clone())).is_none());
    assert_eq!(
        Arc::strong_count(&bells[0]),
        1,
        "the former waker is let go"
    );
    place.leave();
    assert_eq!((bells[0].rung(), bells[1].rung()), (0, 1));
}

#[test]
fn gl_a_live_change_lets_in_at_once_or_waits_until_there_is_room() {
    let bulkhead = bulkhead(1, 5);
    let mut places = vec![admitted(bulkhead.enter(Time::ZERO))];
    let mut tickets: Vec<_> = (0..4).map(|_| queued(bulkhead.enter(Time::ZERO))).collect();
    bulkhead
        .set(&BulkheadSettings {
            max_concurrent: 3,
            max_queued: 0,
        })
        .unwrap();
    let turns: Vec<_> = tickets
        .iter_mut()
        .map(|ticket| ticket.poll(Waker::noop()))
        .collect();
    assert_eq!(
        turns.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    places.extend(turns.into_iter().flatten());
    assert!(matches!(bulkhead.enter(Time::ZERO), Entry::Full));
    bulkhead
        .set(&BulkheadSettings {
            max_concurrent: 1,
            max_queued: 5,
        })
        .unwrap();
    places.pop();
    places.pop();
    assert!(tickets[2].poll(Waker::noop()).is_none());
    places.pop();
    assert!(tickets[2].poll(Waker::noop()).is_some());
}

#[test]
fn gl_no_room_for_anybody_is_refused_by_name() {
    let settings = BulkheadSettings {
        max_concurrent: 0,
        max_queued: 1,
    };
    let error = Bulkhead::new(&settings).unwrap_err();
    assert_eq!((error.field(), error.was()), ("max_concurrent", "0"));
    assert!(bulkhead(1, 0).set(&settings).is_err());
}

#[test]
fn p1_settings_read_back_and_unknown_fields_are_refused() {
    let settings: BulkheadSettings = toml::from_str("max_concurrent = 3\nmax_queued = 0").unwrap();
    assert_eq!(
        settings,
        BulkheadSettings {
            max_concurrent: 3,
            max_queued: 0
        }
    );
    assert_eq!(
        toml::from_str(&toml::to_string(&settings).unwrap()),
        Ok(settings)
    );
    assert!(toml::from_str::<BulkheadSettings>("max_concurent = 3").is_err());
}

/// Every waiter is woken, by threads that sleep until they are.
#[test]
fn gl_no_wake_up_is_lost_between_threads() {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let bulkhead = bulkhead(2, 100);
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..8 {
            let (bulkhead, inside, most) = (&bulkhead, &inside, &most);
            scope.spawn(move || {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                for round in 0..2000 {
                    let place = match bulkhead.enter(Time::ZERO) {
                        Entry::Admitted(place) => place,
                        Entry::Queued(ticket) if (round + number) % 5 == 0 => {
                            drop(ticket);
                            continue;
                        }
                        Entry::Queued(mut ticket) => loop {
                            match ticket.poll(&waker) {
                                Some(place) => break place,
                                None => thread::park(),
                            }
                        },
                        Entry::Full => unreachable!("8 threads, 102 places"),
                    };
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    if round % 16 == 0 {
                        thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(place);
                }
            });
        }
    });
    assert!(most.into_inner() <= 2);
    assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter,
    Leave(usize),
    /// Drops a ticket, whether its turn has come or not.
    Cancel(usize),
    Poll(usize),
    Set(u32, u32),
}

/// A step from any number, which is much quicker to make than one from a strategy of strategies.
fn step(draw: u32) -> Step {
    let which = (draw >> 8) as usize;
    match draw % 15 {
        0..6 => Step::Enter,
        6..9 => Step::Leave(which),
        9..11 => Step::Cancel(which),
        11..14 => Step::Poll(which),
        _ => Step::Set(1 + (draw >> 8) % 5, (draw >> 16) % 8),
    }
}

/// The same, kept as plainly as can be: who is in, and who is in line, by name.
struct Plain {
    limits: (u32, u32),
    inside: Vec<u32>,
    line: VecDeque<u32>,
}

impl Plain {
    fn settle(&mut self) {
        while self.inside.len() < self.limits.0 as usize {
            let Some(name) = self.line.pop_front() else {
                break;
            };
            self.inside.push(name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// 1000 cases of 1000 steps: after a million operations no place is lost or made.
    #[test]
    fn gl_nothing_leaks_in_a_million_random_operations(
        limits in (1u32..6, 0u32..8), draws in prop::collection::vec(any::<u32>(), 1000),
    ) {
        let bulkhead = bulkhead(limits.0, limits.1);
        let mut plain = Plain { limits, inside: Vec::new(), line: VecDeque::new() };
        let mut places: Vec<(u32, Place)> = Vec::new();
        let mut tickets: Vec<(u32, Arc<Bell>, Ticket)> = Vec::new();
        for (name, draw) in (0u32..).zip(draws) {
            match step(draw) {
                Step::Enter => match bulkhead.enter(Time::ZERO) {
                    Entry::Admitted(place) => {
                        prop_assert!(plain.line.is_empty());
                        prop_assert!(plain.inside.len() < plain.limits.0 as usize);
                        plain.inside.push(name);
                        places.push((name, place));
                    }
                    Entry::Queued(mut ticket) => {
                        plain.line.push_back(name);
                        let before = plain.inside.len();
                        plain.settle();
                        prop_assert_eq!(plain.inside.len(), before, "it had to wait");
                        let bell = Arc::new(Bell::default());
                        prop_assert!(ticket.poll(&Waker::from(bell.clone())).is_none());
                        tickets.push((name, bell, ticket));
                    }
                    Entry::Full => {
                        prop_assert!(plain.inside.len() >= plain.limits.0 as usize);
                        prop_assert!(plain.line.len() >= plain.limits.1 as usize);
                    }
                },
                Step::Leave(which) if !places.is_empty() => {
                    let (name, place) = places.swap_remove(which % places.len());
                    place.leave();
                    plain.inside.retain(|&inside| inside != name);
                }
                Step::Cancel(which) if !tickets.is_empty() => {
                    let (name, _, ticket) = tickets.swap_remove(which % tickets.len());
                    drop(ticket);
                    plain.inside.retain(|&inside| inside != name);
                    plain.line.retain(|&waiting| waiting != name);
                }
                Step::Poll(which) if !tickets.is_empty() => {
                    let which = which % tickets.len();
                    let (name, bell, ticket) = &mut tickets[which];
                    let place = ticket.poll(&Waker::from(bell.clone()));
                    prop_assert_eq!(place.is_some(), plain.inside.contains(name));
                    if let Some(place) = place {
                        places.push((*name, place));
                        drop(tickets.swap_remove(which));
                    }
                }
                Step::Set(max_concurrent, max_queued) => {
                    bulkhead.set(&BulkheadSettings { max_concurrent, max_queued }).unwrap();
                    plain.limits = (max_concurrent, max_queued);
                }
                _ => {}
            }
            plain.settle();
            prop_assert_eq!(bulkhead.running() as usize, plain.inside.len());
            prop_assert_eq!(bulkhead.queued() as usize, plain.line.len());
            for (name, bell, _) in &tickets {
                prop_assert_eq!(bell.rung(), u32::from(plain.inside.contains(name)));
            }
        }
        drop((places, tickets));
        prop_assert_eq!((bulkhead.running(), bulkhead.queued()), (0, 0));
    }
}
