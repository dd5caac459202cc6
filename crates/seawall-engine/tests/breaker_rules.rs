//! The breaker's rules, GK1 to GK7.
#![cfg(not(loom))]

mod driven;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use driven::{Driven, consecutive, ms};
use seawall_engine::{
    Breaker, BreakerSettings, Held, Outcome, Phase, State, ThrottledAs, Time, Transition, Verdict,
    WindowSize,
};

fn rate(window: WindowSize, min_calls: u32, failure_rate: f64) -> BreakerSettings {
    BreakerSettings {
        window,
        min_calls,
        failure_rate: Some(failure_rate),
        open_for: ms(1000),
        open_jitter: 0.0,
        ..BreakerSettings::default()
    }
}

const TEN_SECONDS: WindowSize = WindowSize::Time(ms(10_000));

#[test]
fn gk1_count_window_forgets_all_but_the_last_n() {
    let mut b = Driven::new(&rate(WindowSize::Calls(10), 10, 0.5));
    (0..2000).for_each(|_| assert_eq!(b.succeed(), State::Closed));
    (0..4).for_each(|_| assert_eq!(b.fail(), State::Closed));
    assert_eq!(b.counts().calls, 10);
    assert_eq!(b.fail(), State::Open, "5 of the last 10");
}

#[test]
fn gk1_time_window_slides_by_a_tenth_of_itself() {
    for start in [0, 1, 333, 999] {
        let mut b = Driven::new(&rate(TEN_SECONDS, 1000, 0.5));
        b.at(100_000 + start).fail();
        assert_eq!(b.wait(8_999).counts().failures, 1, "90 % at least");
        assert_eq!(b.wait(1_001).counts().failures, 0, "100 % at most");
    }
}

#[test]
fn gk1_time_window_counts_every_bucket_once() {
    let mut b = Driven::new(&rate(TEN_SECONDS, 1000, 1.0));
    for step in 0..300 {
        b.at(step * 100).succeed();
        let expected = if step < 100 {
            step + 1
        } else {
            90 + step % 10 + 1
        };
        assert_eq!(b.counts().calls, expected, "at {} ms", step * 100);
    }
}

#[test]
fn gk1_rate_needs_min_calls_and_its_share_exactly() {
    for (share, failures, of) in [
        (0.5, 10, 20),
        (0.07, 7, 100),
        (0.29, 29, 100),
        (1.0, 20, 20),
    ] {
        for window in [TEN_SECONDS, WindowSize::Calls(of)] {
            let mut b = Driven::new(&rate(window, of, share));
            (0..of - failures).for_each(|_| assert_eq!(b.succeed(), State::Closed));
            (1..failures).for_each(|_| assert_eq!(b.fail(), State::Closed, "{share}"));
            assert_eq!(b.fail(), State::Open, "{failures} of {of} is {share}");
        }
    }
}

#[test]
fn gk1_one_below_its_share_stays_closed() {
    let mut b = Driven::new(&rate(TEN_SECONDS, 20, 0.5));
    (0..11).for_each(|_| assert_eq!(b.succeed(), State::Closed));
    (0..10).for_each(|_| assert_eq!(b.fail(), State::Closed, "10 of 21 at most"));
    assert_eq!(b.fail(), State::Open, "11 of 22");
}

#[test]
fn gk1_never_judged_on_a_plain_success() {
    for window in [TEN_SECONDS, WindowSize::Calls(20)] {
        let mut b = Driven::new(&rate(window, 5, 0.5));
        (0..4).for_each(|_| assert_eq!(b.fail(), State::Closed));
        assert_eq!(b.succeed(), State::Closed, "4 of 5, and yet");
        assert_eq!(b.fail(), State::Open);
    }
}

#[test]
fn gk1_slow_calls_trip_though_they_succeed() {
    for window in [TEN_SECONDS, WindowSize::Calls(10)] {
        let settings = BreakerSettings {
            slow_call: Some(ms(100)),
            slow_rate: Some(0.3),
            ..rate(window, 10, 1.0)
        };
        let mut b = Driven::new(&settings);
        let (slow, just) = (ms(101), ms(100));
        (0..7).for_each(|_| assert_eq!(b.call(Verdict::Success, just), State::Closed));
        (0..2).for_each(|_| assert_eq!(b.call(Verdict::Success, slow), State::Closed));
        assert_eq!(b.counts().slow, 2);
        assert_eq!(b.call(Verdict::Success, slow), State::Open);
    }
}

#[test]
fn gk1_a_fast_failure_may_complete_the_minimum_of_slow_calls() {
    let settings = BreakerSettings {
        slow_call: Some(ms(100)),
        ..rate(TEN_SECONDS, 10, 1.0)
    };
    let mut b = Driven::new(&settings);
    (0..9).for_each(|_| assert_eq!(b.call(Verdict::Success, ms(200)), State::Closed));
    assert_eq!(b.fail(), State::Open);
}

#[test]
fn gk1_average_response_time_trips_when_it_is_reached() {
    for window in [TEN_SECONDS, WindowSize::Calls(5)] {
        let settings = BreakerSettings {
            failure_rate: None,
            average: Some(ms(300)),
            ..rate(window, 5, 1.0)
        };
        let mut b = Driven::new(&settings);
        for took in [100, 100, 100, 590] {
            assert_eq!(b.call(Verdict::Success, ms(took)), State::Closed);
        }
        let average = b.counts().average.unwrap();
        assert!(average.abs_diff(Duration::from_micros(222_500)) < Duration::from_micros(30));
        assert_eq!(b.call(Verdict::Success, ms(611)), State::Open);
    }
}

#[test]
fn gk1_failures_within_the_window_trip_at_any_rate() {
    let settings = BreakerSettings {
        failures: Some(3),
        failure_rate: None,
        ..consecutive(1)
    };
    let mut b = Driven::new(&BreakerSettings {
        consecutive: None,
        ..settings
    });
    for round in 0..2 {
        (0..500).for_each(|_| assert_eq!(b.succeed(), State::Closed));
        assert_eq!(b.fail(), State::Closed, "{round}");
    }
    b.wait(10_000);
    assert_eq!(
        b.fail(),
        State::Closed,
        "the first two are out of the window"
    );
    assert_eq!(b.fail(), State::Closed);
    assert_eq!(b.fail(), State::Open);
}

#[test]
fn gk1_only_a_success_ends_a_row() {
    let mut b = Driven::new(&consecutive(3));
    b.fail();
    b.fail();
    b.call(Verdict::Neutral, ms(1));
    b.wait(3_600_000);
    assert_eq!(
        b.fail(),
        State::Open,
        "neither neutral results nor time end a row"
    );

    let mut b = Driven::new(&consecutive(3));
    for _ in 0..10 {
        b.fail();
        b.fail();
        assert_eq!(b.succeed(), State::Closed);
    }
}

#[test]
fn gk1_successes_within_a_judged_epoch_cannot_hide_a_trip() {
    // The number of failures that the last judgement asked for is a lower bound only.
    let mut b = Driven::new(&rate(TEN_SECONDS, 4, 0.5));
    let mut counted = (0u32, 0u32);
    for step in 0..400u32 {
        b.at(u64::from(step) * 3);
        let fails = step % 7 < 3;
        let state = if fails { b.fail() } else { b.succeed() };
        counted = (counted.0 + u32::from(fails), counted.1 + 1);
        let trips = fails && counted.1 >= 4 && counted.0 * 2 >= counted.1;
        assert_eq!(
            state,
            if trips { State::Open } else { State::Closed },
            "{counted:?}"
        );
        if trips {
            return assert!(step > 3);
        }
    }
}

#[test]
fn gk1_looks_again_at_the_newest_bucket_before_it_opens() {
    let mut b = Driven::new(&rate(TEN_SECONDS, 4, 0.5));
    b.at(5_000);
    let late = b.permit().unwrap();
    (0..3).for_each(|_| assert_eq!(b.fail(), State::Closed));
    b.at(7_000);
    (0..8).for_each(|_| assert_eq!(b.succeed(), State::Closed));
    b.at(5_000);
    b.record(late, Verdict::Failure, ms(1));
    assert_eq!(
        b.at(7_000).state(),
        State::Closed,
        "4 of 4 for who looks back from then, 4 of 12 now"
    );
}

#[test]
fn gk2_what_an_outcome_says_of_the_server() {
    use Outcome::{Cancelled, Permanent, Success, Throttled, Transient};
    use ThrottledAs::{Failure, Neutral};
    let of = Verdict::of;
    for phase in [Phase::Unprocessed, Phase::Ambiguous] {
        assert_eq!(of(Transient(phase), false, Neutral), Verdict::Failure);
        assert_eq!(of(Transient(phase), true, Neutral), Verdict::Failure);
        assert_eq!(of(Throttled(phase), true, Neutral), Verdict::Neutral);
        assert_eq!(of(Throttled(phase), true, Failure), Verdict::Failure);
    }
    for throttled in [Neutral, Failure] {
        assert_eq!(of(Success, true, throttled), Verdict::Success);
        assert_eq!(of(Permanent, true, throttled), Verdict::Success);
        assert_eq!(of(Permanent, false, throttled), Verdict::Neutral);
        assert_eq!(of(Cancelled, false, throttled), Verdict::Neutral);
    }
}

#[test]
fn gk2_neutral_results_decide_nothing() {
    let mut b = Driven::new(&rate(TEN_SECONDS, 1, 0.5));
    (0..100).for_each(|_| assert_eq!(b.call(Verdict::Neutral, ms(90_000)), State::Closed));
    assert_eq!(b.counts().calls, 0);
}

#[test]
fn gk3_open_time_grows_to_its_limit_and_starts_again_after_a_close() {
    let settings = BreakerSettings {
        open_for: ms(1000),
        open_factor: 2.0,
        open_for_max: ms(5000),
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    for _ in 0..2 {
        for expected in [1000, 2000, 4000, 5000, 5000, 5000] {
            b.fail();
            assert_eq!(b.retry_in(), Some(ms(expected)));
            b.wait(expected);
        }
        assert_eq!(b.succeed(), State::Closed);
    }
}

#[test]
fn gk3_asked_again_at_t_equal_until() {
    let mut b = Driven::new(&consecutive(1));
    b.at(500).fail();
    b.now = Time::from_nanos(1_499_999_999);
    assert_eq!(b.state(), State::Open);
    assert_eq!(
        b.permit().unwrap_err().retry_in,
        Some(Duration::from_nanos(1))
    );
    assert_eq!(b.at(1500).state(), State::HalfOpen);
    assert!(b.permit().unwrap().is_probe());
}

#[test]
fn gk3_jitter_lengthens_and_never_shortens() {
    let settings = BreakerSettings {
        open_jitter: 0.5,
        ..consecutive(1)
    };
    let times: Vec<_> = (0..200)
        .map(|seed| {
            let breaker = Breaker::new(&settings, None, seed).unwrap();
            let permit = breaker.permit(Time::ZERO).unwrap().permit;
            breaker.record(permit, Time::ZERO, Verdict::Failure, ms(1));
            breaker.look(Time::ZERO).unwrap_err().retry_in.unwrap()
        })
        .collect();
    let (least, most) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    assert!(ms(1000) <= least && least < ms(1050), "{least:?}");
    assert!(ms(1450) < most && most <= ms(1500), "{most:?}");
}

#[test]
fn gk3_no_open_time_overflows() {
    let settings = BreakerSettings {
        open_for: Duration::MAX,
        open_for_max: Duration::MAX,
        open_factor: f64::MAX,
        open_jitter: 1.0,
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    b.fail();
    assert_eq!(b.at(1 << 40).state(), State::Open);
}

#[test]
fn gk4_admits_at_most_its_probes_and_closes_when_enough_succeed() {
    let mut b = Driven::new(&BreakerSettings {
        probes: 3,
        ..rate(TEN_SECONDS, 20, 0.5)
    });
    b.half_open();
    let probes: Vec<_> = (0..3).map(|_| b.permit().unwrap()).collect();
    assert_eq!(
        b.permit().unwrap_err().retry_in,
        Some(ms(1000)),
        "until the lease runs out"
    );
    b.record(probes[0], Verdict::Success, ms(1));
    assert_eq!(b.state(), State::HalfOpen);
    assert!(b.permit().is_err(), "a settled probe stays used");
    b.record(probes[1], Verdict::Success, ms(1));
    assert_eq!(
        b.state(),
        State::Closed,
        "2 of 3 keep the failures below half"
    );
    b.record(probes[2], Verdict::Failure, ms(1));
    assert_eq!(b.counts().calls, 0, "a late probe changes nothing");
}

#[test]
fn gk4_reopens_once_the_number_is_out_of_reach() {
    let mut b = Driven::new(&BreakerSettings {
        probes: 3,
        ..rate(TEN_SECONDS, 20, 0.5)
    });
    b.half_open();
    assert_eq!(b.fail(), State::HalfOpen);
    assert_eq!(b.fail(), State::Open);
    assert_eq!(b.retry_in(), Some(ms(2000)));
}

#[test]
fn gk4_successes_needed_follow_from_the_rates() {
    for (probes, share, needed) in [
        (1, 0.5, 1),
        (2, 0.5, 2),
        (3, 0.5, 2),
        (4, 0.5, 3),
        (10, 0.1, 10),
        (10, 0.3, 8),
        (5, 1.0, 1),
    ] {
        let settings = BreakerSettings {
            probes,
            ..rate(TEN_SECONDS, 20, share)
        };
        let mut b = Driven::new(&settings);
        b.half_open();
        (1..needed).for_each(|_| assert_eq!(b.succeed(), State::HalfOpen, "{probes} {share}"));
        assert_eq!(b.succeed(), State::Closed, "{probes} {share}");
    }
}

#[test]
fn gk4_where_only_numbers_are_judged_no_probe_may_fail() {
    let mut b = Driven::new(&BreakerSettings {
        probes: 3,
        ..consecutive(5)
    });
    b.half_open();
    b.succeed();
    b.succeed();
    assert_eq!(b.fail(), State::Open);
}

#[test]
fn gk4_neutral_probes_give_their_slots_back() {
    let mut b = Driven::new(&consecutive(1));
    b.half_open();
    for _ in 0..100 {
        assert_eq!(b.call(Verdict::Neutral, ms(1)), State::HalfOpen);
    }
    assert_eq!(b.succeed(), State::Closed);
}

#[test]
fn gk4_a_slow_probe_counts_as_slow() {
    let settings = BreakerSettings {
        slow_call: Some(ms(50)),
        probes: 1,
        ..rate(TEN_SECONDS, 20, 0.5)
    };
    let mut b = Driven::new(&settings);
    b.half_open();
    assert_eq!(b.call(Verdict::Success, ms(51)), State::Open);
}

#[test]
fn gk4_probes_slow_on_average_reopen() {
    let settings = BreakerSettings {
        average: Some(ms(100)),
        probes: 3,
        ..rate(TEN_SECONDS, 20, 0.9)
    };
    for (times, ending) in [([10, 10, 279], State::Closed), ([10, 10, 280], State::Open)] {
        let mut b = Driven::new(&settings);
        b.half_open();
        for took in times {
            assert!(matches!(b.state(), State::HalfOpen));
            b.call(Verdict::Success, ms(took));
        }
        assert_eq!(b.state(), ending);
    }
}

#[test]
fn gk4_probe_timeout_is_open_for_or_the_attempt_timeout() {
    for (attempt_timeout, set, lease) in [
        (None, None, 1000),
        (Some(ms(3000)), None, 3000),
        (Some(ms(500)), None, 1000),
        (None, Some(ms(70)), 70),
    ] {
        let settings = BreakerSettings {
            probe_timeout: set,
            ..consecutive(1)
        };
        let mut b = Driven::with_attempt_timeout(&settings, attempt_timeout);
        b.half_open();
        let lost = b.permit().unwrap();
        assert_eq!(b.permit().unwrap_err().retry_in, Some(ms(lease)));
        b.wait(lease - 1);
        assert!(b.permit().is_err());
        b.wait(1);
        let next = b.permit().unwrap();
        b.record(lost, Verdict::Success, ms(lease));
        assert_eq!(
            b.state(),
            State::HalfOpen,
            "its late result changes nothing"
        );
        assert!(b.permit().is_err(), "nor gives it a slot that is another's");
        b.record(next, Verdict::Success, ms(1));
        assert_eq!(b.state(), State::Closed);
    }
}

#[test]
fn gk4_a_result_at_the_moment_the_lease_ends_is_late() {
    let mut b = Driven::new(&consecutive(1));
    b.half_open();
    let probe = b.permit().unwrap();
    b.wait(1000);
    b.record(probe, Verdict::Success, ms(1000));
    assert_eq!(b.state(), State::HalfOpen);
    assert!(b.permit().is_ok());
}

#[test]
fn gk5_results_of_an_older_generation_change_nothing() {
    let mut b = Driven::new(&consecutive(2));
    let old: Vec<_> = (0..9).map(|_| b.permit().unwrap()).collect();
    b.trip();
    b.record(old[0], Verdict::Failure, ms(1));
    b.record(old[1], Verdict::Success, ms(1));
    assert_eq!((b.state(), b.retry_in()), (State::Open, Some(ms(1000))));
    b.wait(1000);
    let probe = b.permit().unwrap();
    b.record(old[2], Verdict::Success, ms(1));
    b.record(old[3], Verdict::Failure, ms(1));
    assert!(b.permit().is_err(), "a stale result frees no slot");
    b.record(probe, Verdict::Success, ms(1));
    assert_eq!(b.state(), State::Closed);
    b.record(old[4], Verdict::Failure, ms(1));
    b.record(old[5], Verdict::Failure, ms(1));
    assert_eq!(b.fail(), State::Closed, "the row is this generation's own");
    assert_eq!(b.counts().calls, 1);
}

#[test]
fn gk5_a_probe_recorded_twice_counts_once() {
    let settings = BreakerSettings {
        probes: 3,
        probe_successes: Some(3),
        ..consecutive(1)
    };
    let mut b = Driven::new(&settings);
    b.half_open();
    let probe = b.permit().unwrap();
    (0..3).for_each(|_| b.record(probe, Verdict::Success, ms(1)));
    b.breaker.release(probe);
    assert_eq!(b.state(), State::HalfOpen);
    assert!(b.permit().is_ok() && b.permit().is_ok());
    assert!(
        b.permit().is_err(),
        "a settled probe that is released again frees nothing"
    );
}

#[test]
fn gk5_dropped_or_panicked_permits_are_neutral() {
    let mut b = Driven::new(&consecutive(1));
    b.half_open();
    let now = b.now;
    for _ in 0..1000 {
        drop(Held::new(&b.breaker, b.breaker.permit(now).unwrap().permit));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = Held::new(&b.breaker, b.breaker.permit(now).unwrap().permit);
            std::panic::resume_unwind(Box::new("an attempt panics"));
        }));
        assert!(panicked.is_err());
    }
    let held = Held::new(&b.breaker, b.breaker.permit(now).unwrap().permit);
    assert!(b.breaker.permit(now).is_err());
    let closing = held.record(now, Verdict::Success, ms(1));
    assert_eq!(
        closing,
        Some(Transition {
            from: State::HalfOpen,
            to: State::Closed
        })
    );
}

#[test]
fn gk6_state_follows_the_clock_without_traffic() {
    let mut b = Driven::new(&consecutive(1));
    b.fail();
    assert_eq!(b.at(999).state(), State::Open);
    assert_eq!(b.at(1000).state(), State::HalfOpen);
    assert_eq!(b.breaker.look(b.now), Ok(()));
    assert_eq!(b.transitions.len(), 1, "looking changes nothing");
}

#[test]
fn gk6_forced_states_hold_until_reset() {
    let mut b = Driven::new(&consecutive(1));
    let to = |from, to| Some(Transition { from, to });
    assert_eq!(b.breaker.force_open(), to(State::Closed, State::ForcedOpen));
    assert_eq!(b.breaker.force_open(), None);
    b.wait(1 << 30);
    assert_eq!(b.permit().unwrap_err().retry_in, None);
    assert_eq!(
        b.breaker.force_closed(),
        to(State::ForcedOpen, State::ForcedClosed)
    );
    (0..100).for_each(|_| assert_eq!(b.fail(), State::ForcedClosed));
    let old = b.permit().unwrap();
    assert_eq!(b.breaker.reset(), to(State::ForcedClosed, State::Closed));
    b.record(old, Verdict::Failure, ms(1));
    assert_eq!(b.counts().calls, 0);
    assert_eq!(b.fail(), State::Open);
    assert_eq!(b.breaker.reset(), to(State::Open, State::Closed));
    assert_eq!(b.breaker.reset(), None);
    b.fail();
    assert_eq!(
        b.retry_in(),
        Some(ms(1000)),
        "openings in a row are forgotten"
    );
}

#[test]
fn gk6_reset_forgets_what_was_counted() {
    for window in [TEN_SECONDS, WindowSize::Calls(20)] {
        let mut b = Driven::new(&rate(window, 10, 0.5));
        (0..9).for_each(|_| assert_eq!(b.fail(), State::Closed));
        b.breaker.reset();
        assert_eq!(b.counts().calls, 0);
        (0..9).for_each(|_| assert_eq!(b.fail(), State::Closed));
        assert_eq!(b.fail(), State::Open);
    }
}

#[test]
fn gk6_shadow_counts_and_never_refuses() {
    let mut b = Driven::new(&consecutive(2));
    b.breaker.set_shadow(true);
    b.trip();
    for _ in 0..10 {
        assert_eq!(b.breaker.look(b.now), Ok(()));
        assert_eq!(
            b.succeed(),
            State::Open,
            "would have been refused: decides nothing"
        );
    }
    assert_eq!(b.breaker.refused(), 10);
    b.wait(1000);
    let probe = b.permit().unwrap();
    let beside = b.permit().unwrap();
    assert!(probe.is_probe() && !beside.is_probe());
    b.record(beside, Verdict::Failure, ms(1));
    assert_eq!(b.state(), State::HalfOpen);
    b.record(probe, Verdict::Success, ms(1));
    assert_eq!(b.state(), State::Closed);
    assert_eq!(b.breaker.refused(), 11);
}

#[test]
fn gk7_a_refusal_says_how_long_and_is_counted_once() {
    let mut b = Driven::new(&consecutive(1));
    b.fail();
    b.wait(400);
    assert_eq!(b.permit().unwrap_err().retry_in, Some(ms(600)));
    assert_eq!(b.breaker.refused(), 1);
    assert_eq!(b.breaker.look(b.now).unwrap_err().retry_in, Some(ms(600)));
    assert_eq!(b.breaker.refused(), 2);
    assert_eq!(b.breaker.opened(), 1);
}

#[test]
fn gk7_each_transition_is_seen_exactly_once() {
    let mut b = Driven::new(&consecutive(1));
    b.half_open();
    b.fail();
    let wait = b.retry_in().unwrap();
    b.now = b.now.after(wait);
    b.succeed();
    let seen: Vec<_> = b.transitions.iter().map(ToString::to_string).collect();
    assert_eq!(
        seen,
        [
            "closed -> open",
            "open -> half_open",
            "half_open -> open",
            "open -> half_open",
            "half_open -> closed"
        ]
    );
}

#[test]
fn gk7_of_many_threads_one_sees_the_opening_and_one_gets_the_probe() {
    for _ in 0..200 {
        let breaker = Breaker::new(&consecutive(3), None, 1).unwrap();
        let permits: Vec<_> = (0..8)
            .map(|_| breaker.permit(Time::ZERO).unwrap().permit)
            .collect();
        let opened = std::thread::scope(|scope| {
            let recorders = permits.iter().map(|permit| {
                let breaker = &breaker;
                scope.spawn(move || breaker.record(*permit, Time::ZERO, Verdict::Failure, ms(1)))
            });
            let recorders: Vec<_> = recorders.collect();
            recorders
                .into_iter()
                .filter_map(|recorder| recorder.join().unwrap())
                .count()
        });
        assert_eq!((opened, breaker.opened()), (1, 1));
        let later = Time::ZERO.after(ms(1000));
        let admitted = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..64)
                .map(|_| scope.spawn(|| breaker.permit(later).ok()))
                .collect();
            askers
                .into_iter()
                .filter_map(|asker| asker.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(admitted.len(), 1);
        assert!(admitted[0].transition.is_some());
        assert_eq!(breaker.refused(), 63);
    }
}
