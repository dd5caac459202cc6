//! What is printed reads back as equal.

#![cfg(feature = "config")]

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use seawall::config::{Format, PolicyFile, to_toml};
use seawall_engine::{
    Announce, Backoff, BreakerSettings, BudgetKind, BudgetSettings, BulkheadSettings, Growth,
    HedgeDelay, HedgeSettings, Jitter, KeyScope, KeySettings, KeySyntax, LimiterSettings,
    MaxAttempts, Over, Policy, RetryAfter, Settings, Share, Size, Statuses, ThrottleSettings,
    ThrottledAs, WindowSize,
};

/// P5's block, word for word.
const P5: &str = r#"
[defaults]
max_attempts = 3                     # or "unlimited", with a deadline
deadline = "30s"                     # or false
attempt_timeout = "10s"              # or false
connect_timeout = "5s"
min_attempt = "1ms"
replay_limit = "64KiB"
retry_unsafe_methods = false
backoff = { kind = "exponential", base = "100ms", factor = 2.0, cap = "5s", floor = "0s", jitter = "full" }
retry_after = { honor = true, max = "60s", over = "end", share = "retries" }       # over: end cap; share: off retries all
classify = { transient = [], throttled = [], permanent = [] }                      # statuses that differ from C2
budget = { kind = "ratio", ratio = 0.2, min_per_second = 1.0, burst = 10, initial = 10, key = "origin" }   # key: origin host global
breaker = { window = "10s", min_calls = 20, failure_rate = 0.5, open_for = "5s", open_factor = 2.0, open_for_max = "60s", open_jitter = 0.1, probes = 3, key = "origin" }
hedge = false                        # { delay = "p95", initial_delay = "200ms", max = 1, min_samples = 100 }
throttle = false                     # { k = 2.0, window = "2m", k_min, protect, probe_every, max }
limiter = false                      # { rate = 100.0, burst = 10, wait = true }
bulkhead = false                     # { max_concurrent = 100, max_queued = 50 }
idempotency_key = { auto = false, header = "Idempotency-Key", syntax = "quoted" }
announce = false                     # D7: { timeout_header = "…", attempt_header = "…" }
"#;

fn defaults(text: &str) -> toml::Table {
    let file: toml::Table = toml::from_str(text).unwrap();
    file["defaults"].as_table().unwrap().clone()
}

#[test]
fn p5_the_default_policy_prints_as_the_block_of_the_design() {
    let printed = to_toml(&Policy::default()).unwrap();
    let mut own = defaults(&printed);
    let mut expected = defaults(P5);
    // P5 names it among those that are not set.
    let breaker = own["breaker"].as_table_mut().unwrap();
    assert_eq!(breaker.remove("throttled"), Some("neutral".into()));
    // Printed as a note: written as a field they would no longer follow max_attempts.
    let budget = expected["budget"].as_table_mut().unwrap();
    assert_eq!(budget.remove("burst"), Some(10.into()));
    assert_eq!(budget.remove("initial"), Some(10.into()));
    assert!(
        printed.contains(
            "key = \"origin\" }  # burst = 10 and initial = 10 follow from max_attempts\n"
        ),
        "{printed}"
    );

    let names = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&own), names(&expected), "the order of P5");
    for (name, value) in &expected {
        assert_eq!(own[name].to_string(), value.to_string(), "{name}");
    }
}

#[test]
fn p5_the_burst_that_is_noted_follows_max_attempts() {
    let policy = Policy::builder().max_attempts(30).build().unwrap();
    let printed = to_toml(&policy).unwrap();
    assert!(
        printed.contains("# burst = 60 and initial = 60 follow"),
        "{printed}"
    );
    let read = PolicyFile::parse(&printed, Format::Toml).unwrap();
    assert_eq!(read.policy(), &policy);
}

#[test]
fn p1_what_only_code_has_is_not_printed() {
    let custom = Backoff::custom(|_| Duration::from_millis(1));
    let policy = Policy::builder().backoff(custom).build().unwrap();
    let error = to_toml(&policy).unwrap_err();
    assert_eq!(error.field(), Some("backoff"));

    let mut hedge = HedgeSettings::at_quantile(0.5);
    hedge.min_samples = u64::MAX;
    let policy = Policy::builder().hedge(hedge).build().unwrap();
    let error = to_toml(&policy).unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
}

fn any_duration() -> BoxedStrategy<Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        Just(Duration::from_nanos(1)),
        (any::<u64>(), 0u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)),
        (0u64..100_000_000_000).prop_map(Duration::from_nanos),
    ]
    .boxed()
}

fn positive() -> BoxedStrategy<Duration> {
    any_duration()
        .prop_map(|duration| duration.max(Duration::from_nanos(1)))
        .boxed()
}

fn share() -> BoxedStrategy<f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::MIN_POSITIVE),
        Just(1.0),
        0.0f64..=1.0,
    ]
    .boxed()
}

fn backoff() -> BoxedStrategy<Backoff> {
    let kind = prop_oneof![
        Just(Growth::None),
        Just(Growth::Fixed),
        Just(Growth::Linear),
        Just(Growth::Exponential),
        Just(Growth::Decorrelated),
    ];
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        share().prop_map(Jitter::Proportional),
        prop_oneof![share(), 0.0..f64::MAX].prop_map(Jitter::Additive),
    ];
    let factor = prop_oneof![Just(1.0), Just(f64::MAX), 1.000_001f64..10.0];
    let times = [
        any_duration(),
        any_duration(),
        any_duration(),
        any_duration(),
    ];
    (kind, jitter, factor, times)
        .prop_map(|(kind, jitter, factor, [base, step, one, other])| {
            let mut backoff = Backoff::default();
            backoff.kind = kind;
            backoff.jitter = jitter;
            backoff.factor = factor;
            backoff.base = base;
            backoff.step = step;
            backoff.cap = one.max(other);
            backoff.floor = one.min(other);
            backoff
        })
        .boxed()
}

fn key() -> BoxedStrategy<KeyScope> {
    prop_oneof![
        Just(KeyScope::Origin),
        Just(KeyScope::Host),
        Just(KeyScope::Global)
    ]
    .boxed()
}

fn budget() -> BoxedStrategy<BudgetSettings> {
    let kind = prop_oneof![
        (
            0.0f64..=1e3,
            share(),
            option::of(1u32..=60_000),
            0u32..=60_000,
            any::<bool>()
        )
            .prop_map(
                |(ratio, min_per_second, burst, initial, set)| BudgetKind::Ratio {
                    ratio,
                    min_per_second,
                    burst,
                    initial: set.then_some(initial.min(burst.unwrap_or(10))),
                }
            ),
        (1u32..=1_000, 0.001f64..=1e3).prop_map(|(max_tokens, token_ratio)| BudgetKind::Grpc {
            max_tokens,
            token_ratio
        }),
        [1u32..=60_000, 1..=60_000, 1..=60_000, 1..=60_000].prop_map(
            |[capacity, cost, timeout_cost, throttled_cost]| BudgetKind::Aws {
                capacity,
                cost: cost - 1,
                timeout_cost,
                throttled_cost
            }
        ),
        (share(), any::<u32>()).prop_map(|(ratio, min_concurrency)| BudgetKind::Concurrency {
            ratio,
            min_concurrency
        }),
    ];
    (kind, key())
        .prop_map(|(kind, key)| BudgetSettings::from(kind).key(key))
        .boxed()
}

fn hedge() -> BoxedStrategy<HedgeSettings> {
    let delay = prop_oneof![
        any_duration().prop_map(HedgeDelay::Fixed),
        (f64::MIN_POSITIVE..1.0).prop_map(HedgeDelay::Quantile),
    ];
    let initial_delay = option::of(any_duration());
    (delay, initial_delay, 1u32.., 0..i64::MAX as u64)
        .prop_map(|(delay, initial_delay, max, min_samples)| HedgeSettings {
            delay,
            initial_delay,
            max,
            min_samples,
        })
        .boxed()
}

fn retry_after() -> BoxedStrategy<RetryAfter> {
    let over = prop_oneof![Just(Over::End), Just(Over::Cap)];
    let share = prop_oneof![Just(Share::Off), Just(Share::Retries), Just(Share::All)];
    (any::<bool>(), any_duration(), over, share)
        .prop_map(|(honor, max, over, share)| RetryAfter {
            honor,
            max,
            over,
            share,
        })
        .boxed()
}

fn statuses() -> BoxedStrategy<Statuses> {
    let list = |from: u16| proptest::collection::vec(from..from + 100, 0..5);
    (list(400), list(500), list(100))
        .prop_map(|(transient, throttled, permanent)| Statuses {
            transient,
            throttled,
            permanent,
        })
        .boxed()
}

fn breaker() -> BoxedStrategy<BreakerSettings> {
    let window = prop_oneof![
        (100u32..=65_536).prop_map(WindowSize::Calls),
        any_duration().prop_map(|time| WindowSize::Time(time.max(Duration::from_millis(10)))),
    ];
    let rates = (0.001f64..=1.0, option::of(0.001f64..=1.0));
    let slow = (
        option::of((positive(), option::of(0.001f64..=1.0))),
        option::of(positive()),
    );
    let counts = (option::of(1u32..=100), option::of(1u32..));
    let open = (positive(), positive(), 1.0f64..100.0, share());
    let probes = (1u32..=1_000, any::<bool>(), option::of(positive()));
    let words = (any::<bool>(), key());
    (window, 1u32..=100, rates, slow, counts, open, probes, words)
        .prop_map(
            |(
                window,
                min_calls,
                (rate, set),
                slow,
                (failures, consecutive),
                open,
                probes,
                words,
            )| {
                let ((slow, average), (one, other, open_factor, open_jitter)) = (slow, open);
                let (probes, succeed, probe_timeout) = probes;
                BreakerSettings {
                    window,
                    min_calls,
                    failure_rate: set.or(consecutive.is_none().then_some(rate)),
                    slow_call: slow.map(|(call, _)| call),
                    slow_rate: slow.and_then(|(_, rate)| rate),
                    average,
                    failures,
                    consecutive,
                    open_for: one.min(other),
                    open_factor,
                    open_for_max: one.max(other),
                    open_jitter,
                    probes,
                    probe_successes: succeed.then_some(probes),
                    probe_timeout,
                    throttled: if words.0 {
                        ThrottledAs::Neutral
                    } else {
                        ThrottledAs::Failure
                    },
                    key: words.1,
                }
            },
        )
        .boxed()
}

fn throttle() -> BoxedStrategy<ThrottleSettings> {
    let k = (1.0f64..1e9, any::<bool>());
    (
        k,
        any_duration(),
        any::<u32>(),
        option::of(positive()),
        0.0f64..=1.0,
    )
        .prop_map(
            |((k, shrinks), window, protect, probe_every, max)| ThrottleSettings {
                k,
                window: window.max(Duration::from_millis(40)),
                k_min: shrinks.then_some(1.0 + (k - 1.0) / 2.0),
                protect,
                probe_every,
                max,
            },
        )
        .boxed()
}

fn limiter() -> BoxedStrategy<LimiterSettings> {
    let rate = prop_oneof![Just(f64::INFINITY), Just(f64::MIN_POSITIVE), 0.001f64..1e9];
    (rate, 1u32.., any::<bool>())
        .prop_map(|(rate, burst, wait)| LimiterSettings { rate, burst, wait })
        .boxed()
}

fn bulkhead() -> BoxedStrategy<BulkheadSettings> {
    (2u32.., any::<u32>())
        .prop_map(|(max_concurrent, max_queued)| BulkheadSettings {
            max_concurrent,
            max_queued,
        })
        .boxed()
}

/// A hedge that goes out before this limit, as the engine asks.
fn before(limit: Option<Duration>, hedge: HedgeSettings) -> HedgeSettings {
    let latest = limit.map_or(Duration::MAX, |limit| limit - Duration::from_nanos(1));
    HedgeSettings {
        delay: match hedge.delay {
            HedgeDelay::Fixed(delay) => HedgeDelay::Fixed(delay.min(latest)),
            quantile => quantile,
        },
        initial_delay: hedge.initial_delay.map(|delay| delay.min(latest)),
        ..hedge
    }
}

prop_compose! {
    fn settings()(
        most in option::of(1u32..),
        deadline in option::of(positive()),
        attempt_timeout in option::of(positive()),
        connect_timeout in positive(),
        min_attempt in any_duration(),
        replay_limit in any::<u64>(),
        retry_unsafe_methods: bool,
        backoff in backoff(),
        retry_after in retry_after(),
        classify in statuses(),
        (budget, hedge) in (option::of(budget()), option::of(hedge())),
        (breaker, throttle) in (option::of(breaker()), option::of(throttle())),
        (limiter, bulkhead) in (option::of(limiter()), option::of(bulkhead())),
        (auto, header, bare) in (any::<bool>(), "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", any::<bool>()),
        announce in option::of(("[A-Za-z-]{1,9}", "[A-Za-z-]{1,9}")),
    ) -> Settings {
        let (mut most, mut deadline, mut attempt_timeout) = (most, deadline, attempt_timeout);
        if most.is_none() {
            deadline = Some(deadline.unwrap_or(Duration::MAX));
        }
        if hedge.is_some() {
            let least = Duration::from_millis(2);
            most = most.map(|most| most.max(2));
            deadline = deadline.map(|limit| limit.max(least));
            attempt_timeout = attempt_timeout.map(|limit| limit.max(least));
        }
        let limit = [deadline, attempt_timeout].into_iter().flatten().min();
        Settings {
            max_attempts: most
                .and_then(NonZeroU32::new)
                .map_or(MaxAttempts::Unlimited, MaxAttempts::Limited),
            deadline,
            attempt_timeout,
            connect_timeout,
            min_attempt: min_attempt.min(deadline.unwrap_or(Duration::MAX)),
            replay_limit: Size(replay_limit),
            retry_unsafe_methods,
            backoff,
            retry_after,
            classify,
            budget,
            breaker,
            hedge: hedge.map(|hedge| before(limit, hedge)),
            throttle,
            limiter,
            bulkhead,
            idempotency_key: KeySettings {
                auto,
                header,
                syntax: if bare { KeySyntax::Bare } else { KeySyntax::Quoted },
            },
            announce: announce.map(|(timeout_header, attempt_header)| Announce {
                timeout_header,
                attempt_header,
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn p1_everything_printed_reads_back_as_equal(settings in settings()) {
        let policy = Policy::try_from(settings).unwrap();
        let printed = to_toml(&policy).unwrap();
        let read = PolicyFile::parse(&printed, Format::Toml);
        prop_assert!(read.is_ok(), "{}\n{printed}", read.unwrap_err());
        let read = read.unwrap();
        prop_assert_eq!(read.policy(), &policy, "{}", printed);
    }

    #[test]
    fn p1_json_reads_back_as_equal_too(mut settings in settings()) {
        // JSON has no infinity.
        settings.limiter = settings.limiter.filter(|limiter| limiter.rate.is_finite());
        let policy = Policy::try_from(settings).unwrap();
        let json = serde_json::json!({ "defaults": policy });
        let read = PolicyFile::parse(&json.to_string(), Format::Json);
        prop_assert!(read.is_ok(), "{}\n{json}", read.unwrap_err());
        let read = read.unwrap();
        prop_assert_eq!(read.policy(), &policy, "{}", json);
    }
}
