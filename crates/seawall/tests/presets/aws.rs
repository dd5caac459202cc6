//! `preset:aws`

use seawall::{Ending, KeyGuards, Over, Policy, Time};
use serde_json::Value;

use crate::vector::*;
use crate::virtual_driver::*;

/// Calls with the preset and one set of its guards.
struct Aws {
    policy: Policy,
    guards: KeyGuards,
}

impl Aws {
    /// The draw of the vectors is 1.0, the whole delay: without jitter.
    fn new(config: &Value) -> Self {
        let fields = [
            ("capacity", "budget.capacity"),
            ("retry_cost", "budget.cost"),
            ("transient_cost", "budget.timeout_cost"),
            ("throttling_cost", "budget.throttled_cost"),
            ("max_attempts", "max_attempts"),
        ];
        let times = [
            ("initial_ms", "backoff.base"),
            ("throttling_initial_ms", "backoff.base"),
            ("max_ms", "backoff.cap"),
        ];
        let numbers = fields.iter().filter_map(|(name, field)| {
            let value = config[name].as_u64()?;
            Some(set(field, value))
        });
        let times = times
            .iter()
            .filter(|(name, _)| config[name].is_u64())
            .map(|(name, field)| set_ms(field, &config[name]));
        let mut assigned: Vec<_> = numbers.chain(times).collect();
        assigned.push(set("backoff.jitter", "none"));
        let policy = with("aws", &assigned);
        let guards = KeyGuards::new(&policy, Time::ZERO);
        Self { policy, guards }
    }

    fn tokens(&self) -> u64 {
        self.guards.budget().unwrap().level(Time::ZERO) / 1000
    }

    /// Runs one call: the delay before each retry with the tokens after it, and the ending.
    fn call(&self, server: impl Fn(u32) -> Reply) -> (Vec<(u64, u64)>, Ending) {
        let mut levels = Vec::new();
        let log = run_one(&self.policy, &self.guards, |send| {
            levels.push(self.tokens());
            server(send.number)
        });
        let sent = log.sent_ms();
        let delays = sent.windows(2).map(|pair| pair[1] - pair[0]);
        let retries = delays.zip(levels.into_iter().skip(1)).collect();
        (retries, log.ending(0))
    }
}

/// The vector's steps that have a delay.
fn steps(vector: &Value) -> Vec<(u64, u64)> {
    list(vector, "expected")
        .iter()
        .filter_map(|step| Some((step["delay_ms"].as_u64()?, step["tokens"].as_u64()?)))
        .collect()
}

fn last_tokens(vector: &Value) -> u64 {
    let last = list(vector, "expected").last().unwrap();
    last["tokens"].as_u64().unwrap()
}

/// A server that always fails.
fn outage(id: &str, ending: Ending) {
    let vector = vector(id);
    let aws = Aws::new(&vector["config"]);
    let ended = aws.call(|_| status(0, 500));
    assert_eq!(ended, (steps(&vector), ending));
    assert_eq!(aws.tokens(), last_tokens(&vector));
}

#[test]
fn aw_max_attempts3() {
    outage("aw-max-attempts3", Ending::AttemptsExhausted);
}

#[test]
fn aw_v21_bucket20() {
    outage("aw-v21-bucket20", Ending::BudgetExhausted);
}

#[test]
fn aw_v21_max200() {
    outage("aw-v21-max200", Ending::AttemptsExhausted);
}

/// The tokens are the same; a named delay is spread on top (S3).
#[test]
fn aw_transient_cost10() {
    let vector = vector("aw-transient-cost10");
    let mut aws = Aws::new(&vector["config"]);
    // What the backoff would be plays no part there.
    aws.policy.clone_from(&with(
        "aws",
        &[
            set("max_attempts", 5),
            set("budget.capacity", 100),
            set("backoff.base", "50ms"),
        ],
    ));
    let (retries, ending) = aws.call(|number| {
        if number == 3 {
            return status(0, 200);
        }
        let (after, mut settled) = broken(0, AMBIGUOUS)?;
        settled.hint.wait = Some(secs(1));
        Some((after, settled))
    });
    let expected = steps(&vector);
    assert_eq!(retries.len(), expected.len());
    for ((delay, tokens), (asked, expected)) in retries.into_iter().zip(expected) {
        assert!((asked..=asked + 250).contains(&delay), "{delay}");
        assert_eq!(tokens, expected);
    }
    let ended = (ending, aws.tokens());
    assert_eq!(ended, (Ending::Success, last_tokens(&vector)));
}

#[test]
fn aw_v21_bucket30() {
    let vector = vector("aw-v21-bucket30");
    let aws = Aws::new(&vector["config"]);
    let (first, _) = aws.call(|number| status(0, if number < 3 { 500 } else { 200 }));
    assert_eq!(Some(aws.tokens()), vector["expected"][2]["tokens"].as_u64());
    let (second, _) = aws.call(|number| status(0, if number < 2 { 500 } else { 200 }));
    assert_eq!([first, second].concat(), steps(&vector));
    assert_eq!(aws.tokens(), last_tokens(&vector));
}

#[test]
fn aw_v21_throttle() {
    let vector = vector("aw-v21-throttle");
    let aws = Aws::new(&vector["config"]);
    let ended = aws.call(|number| status(0, if number < 2 { 429 } else { 200 }));
    assert_eq!(ended, (steps(&vector), Ending::Success));
    assert_eq!(aws.tokens(), last_tokens(&vector));
}

/// S4 with `over = "cap"`: the wait is the limit, with jitter on top (S3); there it is exact.
#[test]
fn aw_v20_retry_after() {
    let vector = vector("aw-v20-retry-after");
    let policy = with("aws", &[]);
    assert_eq!(policy.retry_after.over, Over::Cap);
    assert_eq!(policy.retry_after.max, millis(&vector["config"]["max_ms"]));
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let asked = millis(&vector["events"][0]);
    let log = run_one(&policy, &guards, |send| match send.number {
        1 => status_asking(0, 503, asked),
        _ => status(0, 200),
    });
    let limit = vector["expected"][0].as_u64().unwrap();
    assert!(log.sent_ms()[1] >= limit && log.sent_ms()[1] <= limit + 5000);
    assert_eq!(log.ending(0), Ending::Success);
}

fn full_draws(id: &str) {
    let vector = vector(id);
    let policy = with(
        "aws",
        &[
            set_ms("backoff.base", &vector["config"]["initial_ms"]),
            set_ms("backoff.cap", &vector["config"]["max_ms"]),
        ],
    );
    let got: Vec<_> = (1..=3).map(|n| delay(&policy, n, 1.0)).collect();
    assert_eq!(got, all_millis(&vector["expected"]));
}

#[test]
fn aw_backoff_30ms() {
    full_draws("aw-backoff-30ms");
}

#[test]
fn aw_backoff_3s() {
    full_draws("aw-backoff-3s");
}

/// Version 2.1 waits what the server asks for, but at most 5 s more than its backoff; ours is the
/// server's wish up to `retry_after.max` (S4).
#[test]
fn s4_no_clamp_at_five_seconds_above_the_backoff() {
    let policy = with("aws", &[]);
    let log = run_one(
        &policy,
        &KeyGuards::new(&policy, Time::ZERO),
        |send| match send.number {
            1 => status_asking(0, 503, secs(12)),
            _ => status(0, 200),
        },
    );
    assert!(log.sent_ms()[1] >= 12_000, "{:?}", log.sent_ms());
}
