//! The latency histogram (H2) against `hdrhistogram`, against Kaplan and Meier written down
//! plainly, and at the ends of the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use proptest::prelude::*;
use seawall_engine::{Draws, LatencyHistogram, RecentQuantile, Time};
use serde_json::Value;

const QUANTILES: [f64; 8] = [0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999];

fn seconds(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

/// Uniform over (0, 1).
fn unit(draws: Draws, purpose: u64, index: u64) -> f64 {
    ((draws.draw(purpose, index) >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

fn uniform(draws: Draws, index: u64) -> u64 {
    (1e6 + 99e6 * unit(draws, 0, index)) as u64
}

/// Median 20 ms, sigma 1.
fn lognormal(draws: Draws, index: u64) -> u64 {
    let radius = (-2.0 * unit(draws, 1, index).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * unit(draws, 2, index)).cos();
    (20e6 * normal.exp()) as u64
}

/// From 1 ms, alpha 1.5.
fn pareto(draws: Draws, index: u64) -> u64 {
    (1e6 * unit(draws, 3, index).powf(-1.0 / 1.5)) as u64
}

/// The `index`th sample, in nanoseconds.
type Shape = fn(Draws, u64) -> u64;

const SHAPES: [(&str, Shape); 3] = [
    ("uniform", uniform),
    ("lognormal", lognormal),
    ("pareto", pareto),
];

fn assert_close(ours: Option<Duration>, theirs: u64, what: &str) {
    let ours = ours.unwrap().as_nanos() as f64;
    let error = ours / theirs as f64 - 1.0;
    assert!(
        error.abs() <= 0.02,
        "{what}: {ours} instead of {theirs}, {:.2} %",
        100.0 * error
    );
}

#[test]
fn h2_quantiles_are_those_of_hdrhistogram_within_2_percent() {
    for (name, shape) in SHAPES {
        for (seed, samples) in [(1, 1), (2, 10), (3, 999), (4, 50_000)] {
            let ours = LatencyHistogram::default();
            let mut theirs = Histogram::<u64>::new(4).unwrap();
            for index in 0..samples {
                let nanos = shape(Draws::new(seed), index);
                ours.record(Time::ZERO, Duration::from_nanos(nanos));
                theirs.record(nanos).unwrap();
            }
            assert_eq!(ours.count(Time::ZERO), samples);
            for quantile in QUANTILES {
                assert_close(
                    ours.quantile(quantile, Time::ZERO),
                    theirs.value_at_quantile(quantile),
                    &format!("{name}, {samples} samples, q {quantile}"),
                );
            }
        }
    }
}

#[test]
fn h2_quantiles_of_a_sliding_window_are_those_of_its_slots() {
    let window = 28;
    for (name, shape) in SHAPES {
        let ours = LatencyHistogram::new(Duration::from_secs(window)).unwrap();
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for index in 0..12_000u64 {
            // 100 a second, three times slower in the second minute.
            let at = index / 100;
            let nanos = shape(Draws::new(5), index) * if at < 60 { 1 } else { 3 };
            ours.record(seconds(at), Duration::from_nanos(nanos));
            kept.push((at, nanos));
            if index % 997 != 0 {
                continue;
            }
            let first = (at / 7).saturating_sub(3) * 7;
            let mut theirs = Histogram::<u64>::new(4).unwrap();
            for (_, nanos) in kept.iter().filter(|(at, _)| *at >= first) {
                theirs.record(*nanos).unwrap();
            }
            assert_eq!(ours.count(seconds(at)), theirs.len());
            for quantile in QUANTILES {
                assert_close(
                    ours.quantile(quantile, seconds(at)),
                    theirs.value_at_quantile(quantile),
                    &format!("{name}, at {at} s, q {quantile}"),
                );
            }
        }
    }
}

#[test]
fn h2_samples_leave_between_three_quarters_of_the_window_and_all_of_it() {
    for start in 0..40 {
        let latencies = LatencyHistogram::new(Duration::from_secs(40)).unwrap();
        latencies.record(seconds(start), Duration::from_millis(5));
        assert_eq!(latencies.count(seconds(start + 30)), 1);
        assert_eq!(latencies.count(seconds(start + 40)), 0);
    }
}

#[test]
fn h2_the_ends_of_the_clock_and_of_the_range() {
    let never = Time::NEVER;
    for now in [Time::ZERO, Time::from_nanos(1), never] {
        let latencies = LatencyHistogram::new(Duration::from_millis(4)).unwrap();
        assert_eq!(
            (latencies.quantile(0.5, now), latencies.count(now)),
            (None, 0)
        );
        for nanos in [0, 1, u64::MAX] {
            latencies.record(now, Duration::from_nanos(nanos));
        }
        assert_eq!(latencies.count(now), 3);
        assert_eq!(latencies.quantile(0.0, now), Some(Duration::ZERO));
        assert_eq!(latencies.quantile(0.5, now), Some(Duration::from_nanos(1)));
        assert_close(latencies.quantile(1.0, now), u64::MAX, "the longest");
        latencies.record(now, Duration::MAX);
        latencies.record_at_least(now, Duration::MAX);
        assert_eq!(latencies.count(now), 5);
        latencies.merge(&LatencyHistogram::default(), now);
        assert_eq!(latencies.count(now), 5);
    }
    let whole = LatencyHistogram::new(Duration::MAX).unwrap();
    whole.record(Time::ZERO, Duration::from_secs(1));
    whole.record(never, Duration::from_secs(1));
    assert_eq!(whole.count(Time::ZERO), 1);
}

#[test]
fn h2_a_late_sample_goes_where_it_belongs_and_one_from_before_the_window_nowhere() {
    let latencies = LatencyHistogram::new(Duration::from_secs(40)).unwrap();
    latencies.record(seconds(100), Duration::from_millis(5));
    latencies.record(seconds(75), Duration::from_millis(5));
    latencies.record(seconds(60), Duration::from_millis(5));
    assert_eq!(latencies.count(seconds(100)), 2);
    assert_eq!(latencies.count(seconds(110)), 1);
}

#[test]
fn h2_a_window_too_short_to_cut_is_refused_by_name() {
    let error = LatencyHistogram::new(Duration::from_micros(3999)).unwrap_err();
    assert_eq!((error.field(), error.was()), ("window", "3.999ms"));
    assert!(LatencyHistogram::new(Duration::from_millis(4)).is_ok());
}

#[test]
fn h2_merged_is_as_if_all_had_been_recorded_in_one() {
    let (one, other, both) = (
        LatencyHistogram::default(),
        LatencyHistogram::default(),
        LatencyHistogram::default(),
    );
    for index in 0..10_000u64 {
        let (now, took) = (seconds(index / 300), lognormal(Draws::new(6), index));
        let took = Duration::from_nanos(took);
        let histogram = if index % 3 == 0 { &one } else { &other };
        for histogram in [histogram, &both] {
            if index % 7 == 0 {
                histogram.record_at_least(now, took);
            } else {
                histogram.record(now, took);
            }
        }
    }
    let now = seconds(33);
    one.merge(&other, now);
    assert_eq!(one.count(now), both.count(now));
    for quantile in QUANTILES {
        assert_eq!(one.quantile(quantile, now), both.quantile(quantile, now));
    }
}

/// The plain product-limit estimator over `(value, finished)`.
fn kaplan_meier(samples: &[(u64, bool)], quantile: f64) -> Option<u64> {
    let mut values: Vec<u64> = samples.iter().map(|(value, _)| *value).collect();
    values.sort_unstable();
    values.dedup();
    let mut surviving = 1.0;
    for &value in &values {
        let at_risk = samples.iter().filter(|(other, _)| *other >= value).count() as f64;
        let ended = samples
            .iter()
            .filter(|sample| **sample == (value, true))
            .count() as f64;
        surviving *= 1.0 - ended / at_risk;
        if ended > 0.0 && surviving <= 1.0 - quantile + 1e-9 {
            return Some(value);
        }
    }
    values.last().copied()
}

proptest! {
    /// Values below 64 ns have a bucket each, so the answers must be equal.
    #[test]
    fn h2_unfinished_samples_count_as_kaplan_and_meier_have_it(
        samples in prop::collection::vec((0u64..64, prop::bool::weighted(0.7)), 0..200),
        quantile in prop_oneof![0.0f64..=1.0, Just(0.5), Just(0.9), Just(0.95)],
    ) {
        let latencies = LatencyHistogram::default();
        for &(nanos, finished) in &samples {
            let took = Duration::from_nanos(nanos);
            if finished {
                latencies.record(Time::ZERO, took);
            } else {
                latencies.record_at_least(Time::ZERO, took);
            }
        }
        let theirs = kaplan_meier(&samples, quantile).map(Duration::from_nanos);
        prop_assert_eq!(latencies.quantile(quantile, Time::ZERO), theirs);
    }

    #[test]
    fn h2_no_input_panics(
        window: u64,
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<f64>()), 0..30),
    ) {
        let Ok(latencies) = LatencyHistogram::new(Duration::from_nanos(window)) else {
            prop_assert!(window < 4_000_000);
            return Ok(());
        };
        let recent = RecentQuantile::new(0.5, 2).unwrap();
        for (now, nanos, quantile) in steps {
            let (now, took) = (Time::from_nanos(now), Duration::from_nanos(nanos));
            latencies.record(now, took);
            latencies.record_at_least(now, took);
            latencies.quantile(quantile, now);
            recent.of(&latencies, now);
            LatencyHistogram::default().merge(&latencies, now);
        }
    }
}

/// Calls hedged at a fixed delay, the loser abandoned: what is estimated is the latency of an
/// attempt, not that of the winners.
#[test]
fn h2_hedging_does_not_pull_the_estimate_down() {
    let (fair, winners) = (LatencyHistogram::default(), LatencyHistogram::default());
    let mut truth = Histogram::<u64>::new(4).unwrap();
    let delay = 60_000_000;
    for index in 0..200_000 {
        let first = lognormal(Draws::new(7), index);
        let hedge = lognormal(Draws::new(8), index);
        truth.record(first).unwrap();
        let took = Duration::from_nanos;
        if first <= delay {
            fair.record(Time::ZERO, took(first));
            winners.record(Time::ZERO, took(first));
        } else if first <= delay + hedge {
            fair.record(Time::ZERO, took(first));
            fair.record_at_least(Time::ZERO, took(first - delay));
            winners.record(Time::ZERO, took(first));
        } else {
            fair.record_at_least(Time::ZERO, took(delay + hedge));
            fair.record(Time::ZERO, took(hedge));
            winners.record(Time::ZERO, took(hedge));
        }
    }
    // Few attempts run to their end beyond the p95, so the bounds beyond are those of chance.
    for (quantile, bound) in [(0.5, 0.02), (0.9, 0.02), (0.95, 0.03), (0.99, 0.08)] {
        let ours = fair.quantile(quantile, Time::ZERO).unwrap().as_nanos() as f64;
        let error = ours / truth.value_at_quantile(quantile) as f64 - 1.0;
        assert!(error.abs() < bound, "q {quantile}: {:.1} %", 100.0 * error);
    }
    let biased = winners.quantile(0.99, Time::ZERO).unwrap().as_nanos() as f64;
    assert!(
        biased < 0.75 * truth.value_at_quantile(0.99) as f64,
        "else this test shows nothing"
    );
}

#[test]
fn h2_only_unfinished_samples_say_at_least_the_longest() {
    let latencies = LatencyHistogram::default();
    for millis in [10, 30, 20] {
        latencies.record_at_least(Time::ZERO, Duration::from_millis(millis));
    }
    assert_close(
        latencies.quantile(0.5, Time::ZERO),
        30_000_000,
        "the longest wait",
    );
}

/// Eight threads over three slots, of which each is new to somebody: not a sample is lost.
#[test]
fn h2_no_sample_is_lost_when_slots_turn_under_threads() {
    for _ in 0..20 {
        let latencies = LatencyHistogram::new(Duration::from_millis(4)).unwrap();
        latencies.record(Time::ZERO, Duration::from_millis(1));
        let clock = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2500 {
                        let nanos = clock.fetch_add(199, Ordering::Relaxed);
                        let now = Time::from_nanos(nanos);
                        latencies.record(now, Duration::from_nanos(nanos % 1024));
                    }
                });
            }
        });
        let end = clock.into_inner();
        assert!(
            (3_000_000..4_000_000).contains(&end),
            "four slots were seen"
        );
        assert_eq!(latencies.count(Time::from_nanos(end)), 20_001);
    }
}

#[test]
fn h2_it_holds_a_few_kilobytes() {
    let latencies = LatencyHistogram::default();
    assert!(latencies.bytes() < 1100, "{}", latencies.bytes());
    for index in 0..100_000 {
        let nanos = lognormal(Draws::new(9), index).clamp(1_000_000, 250_000_000);
        latencies.record(Time::ZERO, Duration::from_nanos(nanos));
    }
    assert!(latencies.bytes() < 6000, "{}", latencies.bytes());
    for index in 0..100_000 {
        latencies.record(
            Time::ZERO,
            Duration::from_nanos(pareto(Draws::new(9), index)),
        );
        latencies.record_at_least(
            Time::ZERO,
            Duration::from_nanos(uniform(Draws::new(9), index)),
        );
    }
    assert!(latencies.bytes() < 16_000, "{}", latencies.bytes());
}

#[test]
fn h2_below_min_samples_there_is_no_answer_and_then_at_once() {
    let (latencies, p95) = (
        LatencyHistogram::default(),
        RecentQuantile::new(0.95, 100).unwrap(),
    );
    for _ in 0..99 {
        latencies.record(seconds(1), Duration::from_millis(10));
        assert_eq!(p95.of(&latencies, seconds(1)), None);
    }
    latencies.record(seconds(1), Duration::from_millis(10));
    assert_close(p95.of(&latencies, seconds(1)), 10_000_000, "p95");
    assert_eq!(
        p95.of(&latencies, seconds(60)),
        None,
        "they have left the window"
    );
}

#[test]
fn h2_a_remembered_quantile_follows_within_a_256th_of_the_window() {
    let latencies = LatencyHistogram::new(Duration::from_millis(25_600)).unwrap();
    let p50 = RecentQuantile::new(0.5, 1).unwrap();
    let now = seconds(100);
    latencies.record(now, Duration::from_millis(10));
    assert_close(p50.of(&latencies, now), 10_000_000, "first");
    for _ in 0..9 {
        latencies.record(now, Duration::from_millis(40));
    }
    assert_close(
        p50.of(&latencies, now.after(Duration::from_millis(99))),
        10_000_000,
        "kept",
    );
    assert_close(
        p50.of(&latencies, now.after(Duration::from_millis(100))),
        40_000_000,
        "anew",
    );
    assert_eq!(
        p50.of(&latencies, seconds(50)),
        None,
        "a clock that was set back"
    );
}

#[test]
fn h2_a_quantile_of_1_is_refused_by_name() {
    for quantile in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
        assert_eq!(
            RecentQuantile::new(quantile, 1).unwrap_err().field(),
            "quantile"
        );
    }
}

fn vector(id: &str) -> Value {
    let all: Value =
        serde_json::from_str(include_str!("../../../tests/data/peer-vectors.json")).unwrap();
    let vectors = all.as_array().unwrap();
    vectors
        .iter()
        .find(|vector| vector["id"] == id)
        .unwrap()
        .clone()
}

/// failsafe-go's moving quantile gives 42 itself; ours is within 2 % (H2).
#[test]
fn fg_quantile_constant_within_2_percent() {
    let vector = vector("fg-quantile-constant");
    let latencies = LatencyHistogram::default();
    for event in vector["events"].as_array().unwrap() {
        for _ in 0..event["n"].as_u64().unwrap() {
            latencies.record(
                Time::ZERO,
                Duration::from_millis(event["value"].as_u64().unwrap()),
            );
        }
    }
    let quantile = vector["config"]["quantile"].as_f64().unwrap();
    let theirs = vector["expected"]["value"].as_f64().unwrap();
    assert_close(
        latencies.quantile(quantile, Time::ZERO),
        (theirs * 1e6) as u64,
        "constant",
    );
}

/// Not resilience4j's answer, an average plus something: a hedge waits for a quantile (H2), which
/// one slow call in two does not hide, and below `min_samples` there is no hedge.
fn replay_average(id: &str) {
    let vector = vector(id);
    let latencies = LatencyHistogram::default();
    let (cold, warm) = (
        RecentQuantile::new(0.95, 100).unwrap(),
        RecentQuantile::new(0.95, 2).unwrap(),
    );
    let mut longest = 0;
    for event in vector["events"].as_array().unwrap() {
        let millis = event[1].as_u64().unwrap();
        longest = longest.max(millis);
        latencies.record(Time::ZERO, Duration::from_millis(millis));
    }
    assert_eq!(cold.of(&latencies, Time::ZERO), None);
    assert_close(warm.of(&latencies, Time::ZERO), longest * 1_000_000, "p95");
    assert_ne!(vector["expected"].as_u64(), Some(longest));
}

#[test]
fn rj_hedge_avg_200pct_as_a_quantile() {
    replay_average("rj-hedge-avg-200pct");
}

#[test]
fn rj_hedge_avg_errors_as_a_quantile() {
    replay_average("rj-hedge-avg-errors");
}
