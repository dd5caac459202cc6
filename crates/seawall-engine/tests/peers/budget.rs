//! What pays for retries.

use seawall_engine::{
    Backoff, Budget, BudgetKind, BudgetSettings, Ending, Failure, Jitter, KeyGuards, Kind, Outcome,
    Policy, Time,
};
use serde_json::Value;

use crate::vector;
use crate::virtual_driver::*;

/// A bucket like Finagle's: its reserve (so many a second over its window) is our start.
fn finagle(config: &Value) -> Budget {
    let number = |name: &str| config[name].as_f64().unwrap();
    let reserve = number("ttl_s") * number("min_retries_per_s");
    let kind = BudgetKind::Ratio {
        ratio: number("percent"),
        min_per_second: 0.0,
        burst: Some(60_000),
        initial: Some(reserve as u32),
    };
    Budget::new(&kind.into(), None, Time::ZERO)
}

fn allows(budget: &Budget) -> bool {
    budget.withdraw(Failure::Answered, Time::ZERO).is_some()
}

fn finagle_vector(id: &str) {
    let vector = vector(id);
    let budget = finagle(&vector["config"]);
    let expected = |name: &str| vector["expected"][name].as_u64().unwrap();
    assert_eq!(budget.level(Time::ZERO), expected("initial_balance") * 1000);
    let retries = (0..10_000)
        .filter(|_| {
            budget.first_sent(Time::ZERO);
            allows(&budget)
        })
        .count() as u64;
    // Integer thousandths: exact, where the peer needs a tolerance.
    assert_eq!(retries, expected("retries"));
}

#[test]
fn fi_budget_0() {
    finagle_vector("fi-budget-0");
}

#[test]
fn fi_budget_1() {
    finagle_vector("fi-budget-1");
}

#[test]
fn fi_budget_2() {
    finagle_vector("fi-budget-2");
}

#[test]
fn fi_budget_3() {
    finagle_vector("fi-budget-3");
}

#[test]
fn fi_budget_4() {
    finagle_vector("fi-budget-4");
}

#[test]
fn fi_budget_5() {
    finagle_vector("fi-budget-5");
}

#[test]
fn fi_budget_6() {
    finagle_vector("fi-budget-6");
}

#[test]
fn fi_budget_7() {
    finagle_vector("fi-budget-7");
}

#[test]
fn fi_budget_9() {
    finagle_vector("fi-budget-9");
}

#[test]
fn fi_budget_200pct() {
    let vector = vector("fi-budget-200pct");
    let budget = finagle(&vector["config"]);
    assert_eq!(
        budget.level(Time::ZERO),
        vector["expected"]["initial"].as_u64().unwrap()
    );
    (0..10_000).for_each(|_| budget.first_sent(Time::ZERO));
    assert_eq!(
        budget.level(Time::ZERO),
        vector["expected"]["balance"].as_u64().unwrap() * 1000
    );
}

/// Empty is a ratio of 0 that starts with nothing; infinite is `budget = false`.
#[test]
fn fi_budget_empty_infinite() {
    let expected = &vector("fi-budget-empty-infinite")["expected"];
    let nothing = BudgetKind::Ratio {
        ratio: 0.0,
        min_per_second: 0.0,
        burst: None,
        initial: Some(0),
    };
    let sends = |budget: Option<BudgetSettings>| {
        let policy = bare().max_attempts(100).budget(budget).build().unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        let policy = bare()
            .max_attempts(100)
            .deadline(None)
            .backoff(Backoff::none());
        run_one(&policy.build().unwrap(), &guards, |_| status(0, 503))
            .sends
            .len()
    };
    assert_eq!(sends(Some(nothing.into())) > 1, expected[0]["withdraw"]);
    assert_eq!(sends(None) == 100, expected[1]["withdraw"]);
}

fn half_of_calls(executions: u32, retries: u32) -> KeyGuards {
    let policy = bare()
        .budget(BudgetSettings::concurrency(0.5, 1))
        .build()
        .unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let budget = guards.budget().unwrap();
    // Enough calls for so many retries, of which all but `executions` are over.
    let calls = executions.max(retries * 2);
    (0..calls).for_each(|_| budget.first_sent(Time::ZERO));
    assert!((0..retries).all(|_| allows(budget)));
    (executions..calls).for_each(|_| budget.call_ended());
    guards
}

/// They let one retry more in flight than the share (GB): our first answer is no.
#[test]
fn fg_budget_5_min1() {
    let vector = vector("fg-budget-.5-min1");
    let guards = half_of_calls(2, 1);
    let budget = guards.budget().unwrap();
    let answers: Vec<Value> = vector["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| match event.as_str().unwrap() {
            "acquire" => Value::Bool(allows(budget)),
            _ => {
                budget.settled(Kind::Retry, Outcome::Success, 1000);
                Value::Null
            }
        })
        .collect();
    let mut ours = vector["expected"].as_array().unwrap().clone();
    ours[0] = Value::Bool(false);
    assert_eq!(answers, ours);
}

#[test]
fn fg_budget_retry_rejected() {
    let vector = vector("fg-budget-retry-rejected");
    let policy = bare().build().unwrap();
    let log = run_one(&policy, &half_of_calls(2, 2), |_| status(0, 503));
    assert_eq!(vector["expected"]["error"], "budget_exceeded");
    assert_eq!(log.ending(0), Ending::BudgetExhausted);
    assert_eq!(
        log.sends.len() as u64,
        vector["expected"]["attempts_run"].as_u64().unwrap()
    );
}

fn grpc(config: &Value) -> Budget {
    let (most, ratio) = (
        config["max_tokens"].as_u64().unwrap(),
        config["token_ratio"].as_f64(),
    );
    Budget::new(
        &BudgetSettings::grpc(most as u32, ratio.unwrap()),
        None,
        Time::ZERO,
    )
}

fn feed(budget: &Budget, event: &Value) {
    let outcome = if event == "S" {
        Outcome::Success
    } else {
        AMBIGUOUS
    };
    budget.settled(Kind::First, outcome, 0);
}

fn assert_throttle(budget: &Budget, expected: &Value) {
    let tokens = budget.level(Time::ZERO) as f64 / 1000.0;
    assert_eq!(tokens, expected["tokens"].as_f64().unwrap());
    assert_eq!(allows(budget), expected["retry_allowed"]);
}

#[test]
fn a6_throttle_5f() {
    let vector = vector("a6-throttle-5f");
    let budget = grpc(&vector["config"]);
    let expected = vector["expected"].as_array().unwrap();
    for (event, expected) in vector["events"].as_array().unwrap().iter().zip(expected) {
        feed(&budget, event);
        assert_throttle(&budget, expected);
    }
}

#[test]
fn a6_throttle_recover() {
    let vector = vector("a6-throttle-recover");
    let budget = grpc(&vector["config"]);
    vector["events"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(|event| feed(&budget, event));
    assert_throttle(&budget, &vector["expected"]);
}

/// The AWS quota, run through calls: `(delay before each retry, tokens after it)`, then how the
/// call ended and the tokens then. The draw of 1.0 is the whole delay, so without jitter.
struct Aws {
    policy: Policy,
    guards: KeyGuards,
}

impl Aws {
    fn new(config: &Value, base_ms: u64) -> Self {
        let number = |name: &str, default: u32| config[name].as_u64().map_or(default, |n| n as u32);
        let budget = BudgetKind::Aws {
            capacity: number("capacity", 500),
            cost: number("retry_cost", 5),
            timeout_cost: number("transient_cost", 10),
            throttled_cost: number("throttling_cost", 5),
        };
        let cap = ms(u64::from(number("max_ms", 20_000)));
        let backoff = Backoff::exponential(ms(base_ms))
            .cap(cap)
            .jitter(Jitter::None);
        let policy = bare().budget(BudgetSettings::from(budget)).backoff(backoff);
        let policy = policy
            .max_attempts(number("max_attempts", 3))
            .build()
            .unwrap();
        let guards = KeyGuards::new(&policy, Time::ZERO);
        Self { policy, guards }
    }

    fn tokens(&self) -> u64 {
        self.guards.budget().unwrap().level(Time::ZERO) / 1000
    }

    /// Runs one call and gives its retries as the vectors write them.
    fn call(&self, server: impl Fn(u32) -> Reply) -> (Vec<(u64, u64)>, Ending) {
        let mut levels = Vec::new();
        let log = run_one(&self.policy, &self.guards, |send| {
            levels.push(self.tokens());
            server(send.number)
        });
        let delays = log
            .sent_ms()
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect::<Vec<_>>();
        (
            delays.into_iter().zip(levels.into_iter().skip(1)).collect(),
            log.ending(0),
        )
    }
}

/// The vector's steps that have a delay.
fn steps(expected: &Value) -> Vec<(u64, u64)> {
    let steps = expected.as_array().unwrap().iter();
    steps
        .filter_map(|step| Some((step["delay_ms"].as_u64()?, step["tokens"].as_u64()?)))
        .collect()
}

fn last_tokens(expected: &Value) -> u64 {
    expected.as_array().unwrap().last().unwrap()["tokens"]
        .as_u64()
        .unwrap()
}

#[test]
fn aw_max_attempts3() {
    let vector = vector("aw-max-attempts3");
    let aws = Aws::new(&vector["config"], 1000);
    let (retries, ending) = aws.call(|_| status(0, 500));
    assert_eq!(
        (retries, ending),
        (steps(&vector["expected"]), Ending::AttemptsExhausted)
    );
    assert_eq!(aws.tokens(), last_tokens(&vector["expected"]));
}

/// The tokens are the same; a named delay is spread on top (S3).
#[test]
fn aw_transient_cost10() {
    let vector = vector("aw-transient-cost10");
    let aws = Aws::new(&vector["config"], 50);
    let (retries, ending) = aws.call(|number| {
        if number == 3 {
            return status(0, 200);
        }
        let (after, mut settled) = broken(0, AMBIGUOUS)?;
        settled.hint.wait = Some(secs(1));
        Some((after, settled))
    });
    let expected = steps(&vector["expected"]);
    assert_eq!(retries.len(), expected.len());
    for ((delay, tokens), (asked, expected)) in retries.into_iter().zip(expected) {
        assert!((asked..=asked + 250).contains(&delay), "{delay}");
        assert_eq!(tokens, expected);
    }
    assert_eq!(
        (ending, aws.tokens()),
        (Ending::Success, last_tokens(&vector["expected"]))
    );
}

#[test]
fn aw_v21_bucket20() {
    let vector = vector("aw-v21-bucket20");
    let aws = Aws::new(&vector["config"], 50);
    let (retries, ending) = aws.call(|_| status(0, 500));
    assert_eq!(
        (retries, ending),
        (steps(&vector["expected"]), Ending::BudgetExhausted)
    );
    assert_eq!(aws.tokens(), last_tokens(&vector["expected"]));
}

#[test]
fn aw_v21_bucket30() {
    let vector = vector("aw-v21-bucket30");
    let expected = vector["expected"].as_array().unwrap();
    let aws = Aws::new(&vector["config"], 50);
    let (first, _) = aws.call(|number| status(0, if number < 3 { 500 } else { 200 }));
    assert_eq!(aws.tokens(), expected[2]["tokens"].as_u64().unwrap());
    let (second, _) = aws.call(|number| status(0, if number < 2 { 500 } else { 200 }));
    assert_eq!([first, second].concat(), steps(&vector["expected"]));
    assert_eq!(aws.tokens(), last_tokens(&vector["expected"]));
}

#[test]
fn aw_v21_throttle() {
    let vector = vector("aw-v21-throttle");
    let aws = Aws::new(&vector["config"], 1000);
    let (retries, ending) = aws.call(|number| status(0, if number < 2 { 429 } else { 200 }));
    assert_eq!(
        (retries, ending),
        (steps(&vector["expected"]), Ending::Success)
    );
    assert_eq!(aws.tokens(), last_tokens(&vector["expected"]));
}

#[test]
fn aw_v21_max200() {
    let vector = vector("aw-v21-max200");
    let aws = Aws::new(&vector["config"], 50);
    let (retries, ending) = aws.call(|_| status(0, 500));
    assert_eq!(
        (retries, ending),
        (steps(&vector["expected"]), Ending::AttemptsExhausted)
    );
    assert_eq!(aws.tokens(), last_tokens(&vector["expected"]));
}
