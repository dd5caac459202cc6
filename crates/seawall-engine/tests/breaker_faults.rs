//! Faults that breakers in the field had, `tests/data/faults.json` F, at the engine's level.
#![cfg(not(loom))]

mod driven;

use std::time::Duration;

use driven::{Driven, consecutive, ms};
use seawall_engine::{
    BreakerSettings, Outcome, Phase, State, ThrottledAs, Time, Transition, Verdict, WindowSize,
};

fn verdict(outcome: Outcome, answered: bool) -> Verdict {
    Verdict::of(outcome, answered, ThrottledAs::Neutral)
}

#[test]
fn f01_a_probe_that_never_settles_loses_its_slot() {
    let mut b = Driven::with_attempt_timeout(&consecutive(1), Some(ms(10_000)));
    b.half_open();
    let hangs = b.permit().unwrap();
    let mut refused = 0;
    // A caller a second while the server is well again.
    for _ in 0..3600 {
        b.wait(1000);
        match b.permit() {
            Err(_) => refused += 1,
            Ok(probe) => {
                b.record(probe, Verdict::Success, ms(5));
                break;
            }
        }
    }
    assert_eq!(b.state(), State::Closed);
    assert_eq!(refused, 9, "none after the lease of 10 s");
    b.wait(3_600_000);
    b.record(hangs, Verdict::Failure, ms(3_610_000));
    assert_eq!(b.state(), State::Closed);
}

#[test]
fn f03_no_minimum_of_calls_hides_a_failed_probe() {
    let settings = BreakerSettings {
        min_calls: 10,
        open_for: ms(1000),
        open_factor: 1.0,
        open_jitter: 0.0,
        probes: 1,
        ..BreakerSettings::default()
    };
    let mut b = Driven::new(&settings);
    for _ in 0..10 {
        b.fail();
    }
    assert_eq!(
        b.wait(20_000).fail(),
        State::Open,
        "one failed probe, empty window"
    );
    assert_eq!(b.retry_in(), Some(ms(1000)));
    assert_eq!(b.wait(1000).succeed(), State::Closed);
}

#[test]
fn f05_a_successful_probe_closes_with_nothing_counted() {
    let settings = BreakerSettings {
        probe_successes: Some(1),
        ..consecutive(2)
    };
    let mut b = Driven::new(&settings);
    b.half_open();
    assert_eq!(b.succeed(), State::Closed);
    assert_eq!(b.counts().calls, 0);
    assert_eq!(b.fail(), State::Closed);
}

#[test]
fn f07_late_results_decide_nothing() {
    for late in [Verdict::Success, Verdict::Failure] {
        let mut b = Driven::new(&consecutive(2));
        let slow = b.permit().unwrap();
        let in_open: Vec<_> = (0..5).map(|_| b.permit().unwrap()).collect();
        b.trip();
        for permit in in_open {
            b.record(permit, Verdict::Failure, ms(1));
        }
        assert_eq!(
            b.retry_in(),
            Some(ms(1000)),
            "the open time is not extended"
        );
        b.at(3000);
        let probe = b.permit().unwrap();
        b.record(slow, late, ms(3000));
        assert_eq!(b.state(), State::HalfOpen);
        assert!(b.permit().is_err(), "no slot that was not its own");
        b.record(probe, Verdict::Success, ms(1));
        assert_eq!(b.state(), State::Closed);
        let opened = b
            .transitions
            .iter()
            .filter(|seen| seen.to == State::Open)
            .count();
        assert_eq!(opened, 1);
    }
}

#[test]
fn f09_cancelled_siblings_open_nothing() {
    let mut b = Driven::new(&consecutive(5));
    for _ in 0..3 {
        let siblings: Vec<_> = (0..8).map(|_| b.permit().unwrap()).collect();
        for permit in siblings {
            b.record(permit, verdict(Outcome::Cancelled, false), ms(1));
        }
    }
    assert_eq!((b.state(), b.counts().calls), (State::Closed, 0));
}

#[test]
fn f11_a_batch_of_probes_is_judged_together() {
    // Rule GK4: it reopens once the number that closes it is out of reach.
    let settings = BreakerSettings {
        probes: 20,
        probe_successes: Some(10),
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    b.half_open();
    let probes: Vec<_> = (0..20).map(|_| b.permit().unwrap()).collect();
    assert!(b.permit().is_err(), "20 and no more");
    for permit in &probes[..10] {
        b.record(*permit, Verdict::Failure, ms(1));
        assert_eq!(b.state(), State::HalfOpen);
    }
    b.record(probes[10], Verdict::Failure, ms(1));
    assert_eq!(b.state(), State::Open, "10 of 20 cannot be had any more");

    let mut b = Driven::new(&settings);
    b.half_open();
    (0..9).for_each(|_| assert_eq!(b.succeed(), State::HalfOpen));
    assert_eq!(b.succeed(), State::Closed);
}

#[test]
fn f13_a_long_healthy_past_delays_nothing() {
    let settings = BreakerSettings {
        window: WindowSize::Calls(20),
        failure_rate: Some(0.6),
        ..consecutive(1)
    };
    let mut b = Driven::new(&BreakerSettings {
        consecutive: None,
        ..settings
    });
    for _ in 0..2000 {
        b.wait(1800).succeed();
    }
    let until_open = (1..).find(|_| b.fail() == State::Open).unwrap();
    assert_eq!(until_open, 12, "60 % of the last 20");
}

#[test]
fn f15_one_failed_first_call_opens_nothing() {
    let mut b = Driven::new(&BreakerSettings::default());
    assert_eq!(b.fail(), State::Closed);
    assert!(b.permit().is_ok());
}

#[test]
fn f17_a_refusal_is_counted_once() {
    // Looked at first (G): the call ends there, so the permit is never asked for.
    let mut b = Driven::new(&consecutive(1));
    b.fail();
    assert!(b.breaker.look(b.now).is_err());
    assert_eq!(b.breaker.refused(), 1);
    assert!(b.permit().is_err());
    assert_eq!(b.breaker.refused(), 2);
}

#[test]
fn f19_calls_in_flight_end_but_none_follows() {
    let mut b = Driven::new(&consecutive(3));
    let in_flight: Vec<_> = (0..100).map(|_| b.permit().unwrap()).collect();
    b.wait(500);
    let mut sent = in_flight.len();
    for (ended, permit) in (1..).zip(in_flight) {
        b.record(permit, Verdict::Failure, ms(500));
        // Each that failed would be retried.
        sent += usize::from(ended >= 3 && b.permit().is_ok());
    }
    assert_eq!(sent, 100);
    assert_eq!(
        b.transitions,
        [Transition {
            from: State::Closed,
            to: State::Open
        }]
    );
    assert_eq!(b.breaker.opened(), 1);
}

#[test]
fn f21_ignored_probes_give_their_slots_back() {
    // A permanent answer is a sign of health (GK2): the host answered. What says nothing is a
    // cancelled attempt, or an error that never reached the host.
    let mut b = Driven::new(&consecutive(1));
    b.half_open();
    for outcome in [
        Outcome::Permanent,
        Outcome::Cancelled,
        Outcome::Throttled(Phase::Unprocessed),
    ] {
        for _ in 0..10 {
            assert_eq!(b.call(verdict(outcome, false), ms(1)), State::HalfOpen);
        }
    }
    assert_eq!(
        b.call(verdict(Outcome::Permanent, true), ms(1)),
        State::Closed
    );
}

#[test]
fn f23_only_the_monotonic_clock_counts() {
    // No wall clock goes in: what is left to show is the moment, and a `now` that steps back.
    let settings = BreakerSettings {
        open_for: Duration::from_secs(30),
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    b.at(100_000).fail();
    assert_eq!(b.at(40_000).retry_in(), Some(ms(90_000)));
    assert_eq!(b.at(101_000).state(), State::Open);
    b.now = Time::from_nanos(129_999_999_999);
    assert_eq!(b.state(), State::Open);
    assert_eq!(b.at(130_000).state(), State::HalfOpen);
    assert_eq!(b.at(131_000).state(), State::HalfOpen);
    assert!(b.permit().is_ok());
}
