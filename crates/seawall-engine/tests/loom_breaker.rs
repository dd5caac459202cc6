//! The races of a breaker, each explored over the interleavings of its threads:
//! `./scripts/loom`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p seawall-engine --release --test loom_breaker -- --nocapture`
#![cfg(loom)]

mod driven;

use std::sync::atomic::{AtomicUsize, Ordering};

use driven::{consecutive, ms};
use loom::sync::Arc;
use loom::thread;
use seawall_engine::{
    Breaker, BreakerSettings, Permit, State, Time, Transition, Verdict, WindowSize,
};

/// Runs a model over all interleavings, those with more than `preemptions` left out, and says how
/// many there were.
fn explore(
    name: &str,
    preemptions: impl Into<Option<usize>>,
    model: impl Fn() + Sync + Send + 'static,
) {
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    let bound = builder
        .preemption_bound
        .map_or("all".into(), |most| format!("up to {most} preemptions"));
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!(
        "{name}: {} interleavings ({bound})",
        count.load(Ordering::Relaxed)
    );
}

fn breaker(settings: &BreakerSettings) -> Arc<Breaker> {
    Arc::new(Breaker::new(settings, None, 1).unwrap())
}

fn at(millis: u64) -> Time {
    Time::ZERO.after(ms(millis))
}

fn permit(breaker: &Breaker, millis: u64) -> Permit {
    breaker.permit(at(millis)).unwrap().permit
}

fn record(breaker: &Breaker, permit: Permit, millis: u64, verdict: Verdict) -> Option<Transition> {
    breaker.record(permit, at(millis), verdict, ms(1))
}

fn recorded(
    breaker: &Arc<Breaker>,
    permit: Permit,
    millis: u64,
    verdict: Verdict,
) -> thread::JoinHandle<Option<Transition>> {
    let breaker = breaker.clone();
    thread::spawn(move || record(&breaker, permit, millis, verdict))
}

/// Trips a breaker that opens at one failure, at 0 ms for 1 s.
fn tripped(settings: &BreakerSettings) -> Arc<Breaker> {
    let breaker = breaker(settings);
    let failed = permit(&breaker, 0);
    assert!(record(&breaker, failed, 0, Verdict::Failure).is_some());
    breaker
}

/// Opens at 2 failures of 2 calls in 10 s.
fn by_rate(window: WindowSize) -> BreakerSettings {
    BreakerSettings {
        window,
        min_calls: 2,
        failure_rate: Some(1.0),
        consecutive: None,
        ..consecutive(1)
    }
}

const TIME: WindowSize = WindowSize::Time(ms(10_000));
const CALLS: WindowSize = WindowSize::Calls(2);

fn two_failures_open_once(settings: &BreakerSettings) {
    let breaker = breaker(settings);
    let permits: Vec<_> = (0..3).map(|_| permit(&breaker, 0)).collect();
    let threads: Vec<_> = permits
        .iter()
        .map(|permit| recorded(&breaker, *permit, 0, Verdict::Failure))
        .collect();
    let seen = threads
        .into_iter()
        .filter_map(|thread| thread.join().unwrap())
        .count();
    assert_eq!((seen, breaker.opened()), (1, 1));
    assert_eq!(breaker.look(at(0)).unwrap_err().retry_in, Some(ms(1000)));
}

#[test]
fn gk7_two_openings_for_one_trip_consecutive() {
    explore("two openings for one trip, consecutive", 3, || {
        two_failures_open_once(&consecutive(2));
    });
}

#[test]
fn gk7_two_openings_for_one_trip_time_window() {
    explore("two openings for one trip, time window", 2, || {
        two_failures_open_once(&by_rate(TIME))
    });
}

#[test]
fn gk7_two_openings_for_one_trip_count_window() {
    explore("two openings for one trip, count window", 2, || {
        two_failures_open_once(&by_rate(CALLS));
    });
}

#[test]
fn gk5_stale_result_against_an_opening() {
    explore("stale results: a success while it opens", None, || {
        let breaker = breaker(&consecutive(1));
        let (fails, late, later) = (
            permit(&breaker, 0),
            permit(&breaker, 0),
            permit(&breaker, 0),
        );
        let failing = recorded(&breaker, fails, 0, Verdict::Failure);
        let succeeding = recorded(&breaker, late, 0, Verdict::Success);
        assert!(failing.join().unwrap().is_some());
        assert_eq!(succeeding.join().unwrap(), None);
        assert_eq!(record(&breaker, later, 500, Verdict::Failure), None);
        assert_eq!(breaker.look(at(500)).unwrap_err().retry_in, Some(ms(500)));
    });
}

#[test]
fn gk5_stale_failures_against_a_close() {
    explore(
        "stale results: failures while a probe closes it",
        None,
        || {
            let settings = BreakerSettings {
                consecutive: Some(2),
                ..consecutive(2)
            };
            let breaker = breaker(&settings);
            let old: Vec<_> = (0..4).map(|_| permit(&breaker, 0)).collect();
            record(&breaker, old[0], 0, Verdict::Failure);
            assert!(record(&breaker, old[1], 0, Verdict::Failure).is_some());
            let probe = permit(&breaker, 1000);
            let closing = recorded(&breaker, probe, 1000, Verdict::Success);
            let stale = recorded(&breaker, old[2], 1000, Verdict::Failure);
            assert!(closing.join().unwrap().is_some());
            assert_eq!(stale.join().unwrap(), None);
            assert_eq!(record(&breaker, old[3], 1000, Verdict::Failure), None);
            let fresh = permit(&breaker, 1000);
            assert_eq!(
                record(&breaker, fresh, 1000, Verdict::Failure),
                None,
                "one in its row"
            );
            assert_eq!(breaker.counts(at(1000)).calls, 1);
        },
    );
}

#[test]
fn gk5_stale_failure_that_outlives_a_whole_cycle() {
    explore(
        "stale results: a failure delayed over opening, probe and close",
        3,
        || {
            let breaker = breaker(&consecutive(2));
            let old: Vec<_> = (0..3).map(|_| permit(&breaker, 0)).collect();
            let stale = recorded(&breaker, old[0], 0, Verdict::Failure);
            record(&breaker, old[1], 0, Verdict::Failure);
            record(&breaker, old[2], 0, Verdict::Failure);
            let probe = permit(&breaker, 1000);
            assert!(record(&breaker, probe, 1000, Verdict::Success).is_some());
            let fresh = [permit(&breaker, 1000), permit(&breaker, 1000)];
            assert_eq!(
                record(&breaker, fresh[0], 1000, Verdict::Failure),
                None,
                "one in its row"
            );
            assert_eq!(breaker.counts(at(1000)).calls, 1);
            assert!(
                record(&breaker, fresh[1], 1000, Verdict::Failure).is_some(),
                "two"
            );
            stale.join().unwrap();
        },
    );
}

#[test]
fn gk5_stale_results_against_a_reset() {
    explore(
        "stale results: a failure while it is reset, count window",
        None,
        || {
            let breaker = breaker(&by_rate(CALLS));
            let old = permit(&breaker, 0);
            let stale = recorded(&breaker, old, 0, Verdict::Failure);
            breaker.reset();
            assert_eq!(stale.join().unwrap(), None);
            assert_eq!(breaker.counts(at(0)).calls, 0);
            let (one, two) = (permit(&breaker, 0), permit(&breaker, 0));
            assert_eq!(record(&breaker, one, 0, Verdict::Failure), None);
            assert!(record(&breaker, two, 0, Verdict::Failure).is_some());
        },
    );
}

#[test]
fn gk4_doubled_probe_permits() {
    explore("doubled probe permits: three callers, one slot", 3, || {
        let breaker = tripped(&consecutive(1));
        let asking: Vec<_> = (0..2)
            .map(|_| {
                let breaker = breaker.clone();
                thread::spawn(move || breaker.permit(at(1000)).ok())
            })
            .collect();
        let mine = breaker.permit(at(1000)).ok();
        let admitted: Vec<_> = asking
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .chain(mine)
            .collect();
        assert_eq!(admitted.len(), 1);
        assert!(admitted[0].permit.is_probe() && admitted[0].transition.is_some());
        assert_eq!(breaker.refused(), 2);
    });
}

#[test]
fn gk4_leaked_probe_permits() {
    explore(
        "leaked probe permits: one released while another asks",
        None,
        || {
            let breaker = tripped(&consecutive(1));
            let probe = permit(&breaker, 1000);
            let releasing = {
                let breaker = breaker.clone();
                thread::spawn(move || breaker.release(probe))
            };
            let asked = breaker.permit(at(1000));
            releasing.join().unwrap();
            match asked {
                Ok(_) => assert!(breaker.permit(at(1000)).is_err(), "one slot, one probe"),
                Err(_) => assert!(breaker.permit(at(1000)).is_ok(), "the slot came back"),
            }
        },
    );
}

#[test]
fn gk4_lost_lease_against_its_late_result() {
    explore(
        "doubled probe permits: a late result while the slot is leased anew",
        None,
        || {
            let breaker = tripped(&consecutive(1));
            let lost = permit(&breaker, 1000);
            let late = recorded(&breaker, lost, 2000, Verdict::Success);
            let next = permit(&breaker, 2000);
            assert_eq!(late.join().unwrap(), None);
            assert!(breaker.permit(at(2000)).is_err());
            let closed = record(&breaker, next, 2000, Verdict::Success);
            assert_eq!(
                closed,
                Some(Transition {
                    from: State::HalfOpen,
                    to: State::Closed
                })
            );
        },
    );
}

#[test]
fn gk4_two_probes_settle_at_once() {
    explore("two closings for one half-open period", None, || {
        let settings = BreakerSettings {
            probes: 2,
            probe_successes: Some(1),
            ..consecutive(1)
        };
        let breaker = tripped(&settings);
        let (one, two) = (permit(&breaker, 1000), permit(&breaker, 1000));
        let settling = recorded(&breaker, one, 1000, Verdict::Success);
        let mine = record(&breaker, two, 1000, Verdict::Success);
        let theirs = settling.join().unwrap();
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} {theirs:?}");
        assert!(
            breaker
                .permit(at(1000))
                .is_ok_and(|admitted| !admitted.permit.is_probe())
        );
    });
}

#[test]
fn gk4_asking_while_it_closes() {
    explore("asking while a probe closes it", None, || {
        let breaker = tripped(&consecutive(1));
        let probe = permit(&breaker, 1000);
        let closing = recorded(&breaker, probe, 1000, Verdict::Success);
        if let Ok(admitted) = breaker.permit(at(1000)) {
            assert!(!admitted.permit.is_probe());
        }
        assert!(closing.join().unwrap().is_some());
        assert!(breaker.permit(at(1000)).is_ok());
    });
}

#[test]
fn gk1_rotation_of_a_bucket_while_others_record() {
    explore("rotation of a bucket while others record", None, || {
        let settings = BreakerSettings {
            min_calls: 100,
            ..by_rate(TIME)
        };
        let breaker = breaker(&settings);
        let (first, two, three) = (
            permit(&breaker, 0),
            permit(&breaker, 0),
            permit(&breaker, 0),
        );
        record(&breaker, first, 0, Verdict::Success);
        // Four ticks of 5 s later (in this build) both are in the first one's cell.
        let rotating = recorded(&breaker, two, 20_000, Verdict::Success);
        let beside = recorded(&breaker, three, 20_001, Verdict::Success);
        rotating.join().unwrap();
        beside.join().unwrap();
        assert_eq!(
            breaker.counts(at(20_001)).calls,
            2,
            "both counted, the old one gone"
        );
    });
}

#[test]
fn gk1_a_late_writer_against_a_rotation() {
    explore(
        "rotation of a bucket while a late one records",
        None,
        || {
            let settings = BreakerSettings {
                min_calls: 100,
                ..by_rate(TIME)
            };
            let breaker = breaker(&settings);
            let (late, fresh) = (permit(&breaker, 0), permit(&breaker, 0));
            let rotating = recorded(&breaker, fresh, 20_000, Verdict::Failure);
            let lagging = recorded(&breaker, late, 0, Verdict::Failure);
            rotating.join().unwrap();
            lagging.join().unwrap();
            let counts = breaker.counts(at(20_000));
            assert_eq!((counts.calls, counts.failures), (1, 1));
        },
    );
}

#[test]
fn gk1_an_old_reader_against_a_success_in_a_newer_bucket() {
    explore(
        "a descheduled failure against newer successes",
        None,
        || {
            let breaker = breaker(&by_rate(TIME));
            let permits: Vec<_> = (0..3).map(|_| permit(&breaker, 0)).collect();
            record(&breaker, permits[0], 4_000, Verdict::Failure);
            // The success is in the bucket after the failures'.
            let succeeding = recorded(&breaker, permits[1], 6_000, Verdict::Success);
            let failing = recorded(&breaker, permits[2], 4_000, Verdict::Failure);
            succeeding.join().unwrap();
            let opened = failing.join().unwrap().is_some();
            assert_eq!(opened, breaker.opened() == 1);
            assert_eq!(breaker.state(at(4_000)) == State::Open, opened);
        },
    );
}

#[test]
fn gk6_forced_open_against_a_trip() {
    explore("forced open while it trips", None, || {
        let breaker = breaker(&consecutive(1));
        let fails = permit(&breaker, 0);
        let failing = recorded(&breaker, fails, 0, Verdict::Failure);
        let forced = breaker.force_open().unwrap();
        let from = if failing.join().unwrap().is_some() {
            State::Open
        } else {
            State::Closed
        };
        assert_eq!(
            forced,
            Transition {
                from,
                to: State::ForcedOpen
            }
        );
        assert_eq!(breaker.permit(at(1 << 30)).unwrap_err().retry_in, None);
    });
}
