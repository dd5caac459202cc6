//! What `explain` says of a policy (P4).

use std::time::Duration;

use proptest::prelude::*;
use seawall::explain::{Bound, Explanation, Runs};
use seawall_engine::{
    Backoff, BudgetSettings, BulkheadSettings, HedgeSettings, Jitter, LimiterSettings, Policy,
    PolicyBuilder, RetryAfter, Share,
};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn explain(builder: PolicyBuilder) -> Explanation {
    Explanation::of(&builder.build().unwrap())
}

fn warned(builder: PolicyBuilder, of: &str) -> bool {
    let explanation = explain(builder);
    let warned = explanation
        .warnings
        .iter()
        .any(|warning| warning.contains(of));
    assert_eq!(
        explanation.to_string().contains("Warnings:"),
        !explanation.warnings.is_empty()
    );
    warned
}

#[test]
fn p4_the_schedule_has_ranges_and_earliest_and_latest_starts() {
    let explanation = explain(
        Policy::builder()
            .max_attempts(4)
            .deadline(Duration::from_secs(60))
            .attempt_timeout(Duration::from_secs(2))
            .backoff(Backoff::exponential(millis(100)).jitter(Jitter::Equal)),
    );
    let rows: Vec<_> = explanation
        .schedule
        .iter()
        .map(|planned| {
            (
                planned.wait_shortest.as_millis(),
                planned.wait_longest.as_millis(),
                planned.earliest_start.as_millis(),
                planned.latest_start.unwrap().as_millis(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (0, 0, 0, 0),
            (50, 100, 50, 2_100),
            (100, 200, 150, 4_300),
            (200, 400, 350, 6_700)
        ]
    );
    assert!(
        explanation
            .schedule
            .iter()
            .all(|planned| planned.runs == Runs::Always)
    );
    let text = explanation.to_string();
    assert!(
        text.contains("attempt 3 after a wait of 100ms to 200ms; starts at 150ms at the earliest, 4.3s at the latest"),
        "{text}"
    );
}

#[test]
fn p4_the_schedule_says_what_the_deadline_cuts() {
    let explanation = explain(
        Policy::builder()
            .max_attempts(4)
            .deadline(Duration::from_secs(4))
            .min_attempt(millis(500))
            .attempt_timeout(Duration::from_secs(1))
            .backoff(Backoff::fixed(millis(1_500))),
    );
    let runs: Vec<_> = explanation
        .schedule
        .iter()
        .map(|planned| planned.runs)
        .collect();
    // Attempt 3 starts between 3 s and 5 s, but D3 leaves room only until 3.5 s; 4 would at 4.5 s.
    assert_eq!(
        runs,
        [Runs::Always, Runs::Always, Runs::IfTimeIsLeft, Runs::Never]
    );
    assert_eq!(explanation.schedule[2].latest_start, Some(millis(3_500)));
    let text = explanation.to_string();
    assert!(
        text.contains("attempt 4 after a wait of 1.5s; never runs"),
        "{text}"
    );
    assert!(
        text.contains("3.5s at the latest, if the deadline leaves time"),
        "{text}"
    );
}

#[test]
fn p4_many_or_unlimited_attempts_end_in_words() {
    let many = explain(Policy::builder().max_attempts(u32::MAX));
    assert_eq!(many.schedule.len(), 8);
    let later = many.later.as_ref().unwrap();
    assert_eq!((later.from, later.to), (9, Some(u32::MAX)));
    assert_eq!(
        (later.wait_shortest, later.wait_longest),
        (Duration::ZERO, Duration::from_secs(5))
    );
    let text = many.to_string();
    assert!(
        text.contains("attempts 9 to 4294967295, each after a wait of 0s to 5s"),
        "{text}"
    );

    let unlimited = explain(Policy::builder().unlimited_attempts().budget(None));
    let text = unlimited.to_string();
    assert!(
        text.contains("attempts 9 and later, until the deadline"),
        "{text}"
    );
    assert!(
        text.contains("100 % fail: as many as the deadline allows"),
        "{text}"
    );
    assert_eq!(unlimited.amplification.worst_call, None);

    assert_eq!(
        explain(Policy::builder().max_attempts(12)).schedule.len(),
        12
    );
}

#[test]
fn j01_one_attempt_has_no_schedule_beyond_it() {
    let one = explain(Policy::builder().max_attempts(1));
    assert_eq!(one.schedule.len(), 1);
    assert_eq!(one.longest.total, Some(Duration::from_secs(10)));
    assert_eq!(one.amplification.at[1].with_budget, Some(1.0));
    assert!(
        one.to_string().starts_with("1 attempt, no retries"),
        "{one}"
    );
    assert_eq!(explain(Policy::builder().max_attempts(2)).schedule.len(), 2);
}

#[test]
fn p4_the_longest_call_counts_timeouts_waits_hints_and_the_deadline() {
    let steady = || {
        Policy::builder()
            .max_attempts(3)
            .attempt_timeout(Duration::from_secs(2))
            .backoff(Backoff::fixed(millis(500)))
    };
    // 3 attempts of 2 s; each wait up to 60 s and 5 s of jitter, if the server asks for that (S3).
    let longest = explain(steady().deadline(None)).longest;
    assert_eq!(longest.attempts, Some(Duration::from_secs(6)));
    assert_eq!(longest.waits, Some(Duration::from_secs(1)));
    assert_eq!(longest.hinted_waits, Some(Duration::from_secs(130)));
    assert_eq!(
        (longest.total, longest.bound),
        (Some(Duration::from_secs(136)), Bound::Schedule)
    );

    // A hint of 4 s has up to 1 s of jitter.
    let short = RetryAfter {
        max: Duration::from_secs(4),
        ..RetryAfter::default()
    };
    let longest = explain(steady().deadline(None).retry_after(short)).longest;
    assert_eq!(longest.total, Some(Duration::from_secs(16)));

    let deaf = RetryAfter {
        honor: false,
        ..RetryAfter::default()
    };
    let longest = explain(steady().retry_after(deaf)).longest;
    assert_eq!(
        (longest.total, longest.bound),
        (Some(Duration::from_secs(7)), Bound::Schedule)
    );

    let longest = explain(steady().deadline(Duration::from_secs(9))).longest;
    assert_eq!(
        (longest.total, longest.bound),
        (Some(Duration::from_secs(9)), Bound::Deadline)
    );

    let endless = explain(steady().deadline(None).attempt_timeout(None));
    assert_eq!(
        (endless.longest.total, endless.longest.bound),
        (None, Bound::Nothing)
    );
    assert!(endless.to_string().contains("unbounded"), "{endless}");
    assert!(endless.schedule[1].latest_start.is_none());
}

fn amplification(builder: PolicyBuilder) -> [(Option<f64>, Option<f64>); 2] {
    let at = explain(builder).amplification.at;
    assert_eq!((at[0].failures, at[1].failures), (0.5, 1.0));
    [0, 1].map(|row| (at[row].without_budget, at[row].with_budget))
}

#[test]
fn p4_waiting_in_line_is_bounded_by_the_deadline_only() {
    let limiter = LimiterSettings::default();
    assert!(limiter.wait);
    let base = || Policy::builder().max_attempts(1).limiter(limiter);
    let longest = explain(base()).longest;
    assert_eq!(
        (longest.total, longest.bound),
        (Some(Duration::from_secs(30)), Bound::Deadline)
    );
    let endless = explain(base().deadline(None));
    assert_eq!(endless.longest.bound, Bound::Nothing);
    assert!(
        endless
            .to_string()
            .contains("unbounded, for there is no deadline"),
        "{endless}"
    );
    assert!(
        endless
            .to_string()
            .contains("attempt 1 at once, or when its turn in line comes"),
        "{endless}"
    );
    let retried = explain(base().max_attempts(2));
    assert_eq!(retried.schedule[1].latest_start, Some(millis(29_999)));
    let impatient = LimiterSettings {
        wait: false,
        ..limiter
    };
    let longest = explain(base().limiter(impatient)).longest;
    assert_eq!(longest.total, Some(Duration::from_secs(10)));
    let queue = BulkheadSettings {
        max_concurrent: 1,
        max_queued: 1,
    };
    let longest = explain(Policy::builder().max_attempts(1).bulkhead(queue)).longest;
    assert_eq!(longest.bound, Bound::Deadline);
}

#[test]
fn p4_a_cooldown_of_first_attempts_is_one_wait_more() {
    let shared = RetryAfter {
        max: Duration::from_secs(4),
        share: Share::All,
        ..RetryAfter::default()
    };
    let longest = explain(Policy::builder().max_attempts(2).retry_after(shared)).longest;
    // 4 s and up to 1 s of jitter, before each of two attempts (S3, S5).
    assert_eq!(longest.hinted_waits, Some(Duration::from_secs(10)));
}

#[test]
fn p4_amplification_without_and_with_each_budget() {
    let four = || Policy::builder().max_attempts(4);
    // (1 - 0.5⁴) / (1 - 0.5), and 4.
    assert_eq!(
        amplification(four().budget(None)),
        [(Some(1.875), Some(1.875)), (Some(4.0), Some(4.0))]
    );
    assert_eq!(
        amplification(four()),
        [(Some(1.875), Some(1.2)), (Some(4.0), Some(1.2))]
    );
    // A budget larger than the need changes nothing.
    assert_eq!(
        amplification(four().budget(BudgetSettings::ratio(10.0)))[1],
        (Some(4.0), Some(4.0))
    );
    // A6: at 50 % the failures outweigh 0.1 per success, but not 2 per success.
    assert_eq!(
        amplification(four().budget(BudgetSettings::grpc(10, 0.1)))[0].1,
        Some(1.0)
    );
    assert_eq!(
        amplification(four().budget(BudgetSettings::grpc(10, 2.0)))[0].1,
        Some(1.875)
    );
    // 1 earned by each first success, 5 lost by each retry that fails: one retry in five calls.
    assert_eq!(
        amplification(four().budget(BudgetSettings::aws()))[0].1,
        Some(1.2)
    );
    assert_eq!(
        amplification(four().budget(BudgetSettings::aws()))[1].1,
        Some(1.0)
    );
    // Unlimited attempts: 1 / (1 - p), and without bound.
    assert_eq!(
        amplification(Policy::builder().unlimited_attempts()),
        [(Some(2.0), Some(1.2)), (None, Some(1.2))]
    );
}

/// The formulas of the long run, against the engine's own budgets: calls whose attempts all fail
/// with probability 0.5.
#[test]
fn p4_the_long_run_is_what_the_budgets_really_do() {
    use seawall_engine::{Budget, Draws, Failure, Kind, Outcome, Phase, Time};
    for settings in [
        BudgetSettings::aws(),
        BudgetSettings::grpc(10, 0.1),
        BudgetSettings::grpc(1_000, 2.0),
        BudgetSettings::ratio(0.2),
    ] {
        let builder = Policy::builder().max_attempts(4).budget(settings.clone());
        let expected = amplification(builder)[0].1.unwrap();
        // No time passes, so nothing trickles in.
        let budget = Budget::new(&settings, Some(4), Time::ZERO);
        let draws = Draws::new(7);
        let (mut attempts, calls) = (0u64, 200_000);
        for call in 0..calls {
            let mut kind = Kind::First;
            let mut cost = 0;
            budget.first_sent(Time::ZERO);
            for attempt in 0..4 {
                attempts += 1;
                let failed = draws.draw(call, attempt) < u64::MAX / 2;
                let outcome = match failed {
                    true => Outcome::Transient(Phase::Ambiguous),
                    false => Outcome::Success,
                };
                budget.settled(kind, outcome, cost);
                if !failed || attempt == 3 {
                    break;
                }
                match budget.withdraw(Failure::Answered, Time::ZERO) {
                    Some(paid) => (kind, cost) = (Kind::Retry, paid),
                    None => break,
                }
            }
        }
        let measured = attempts as f64 / calls as f64;
        assert!(
            (measured - expected).abs() < 0.02,
            "{settings:?}: {measured}, {expected}"
        );
    }
}

#[test]
fn p4_warnings_of_what_is_probably_not_meant() {
    assert_eq!(Policy::default().warnings(), Vec::<String>::new());
    let base = Policy::builder;

    assert!(warned(
        base().backoff(Backoff::fixed(millis(9))),
        "backoff.jitter is none"
    ));
    assert!(warned(
        base().backoff(Backoff::none()),
        "backoff.kind is none"
    ));
    assert!(!warned(
        base().backoff(Backoff::decorrelated(millis(9))),
        "backoff"
    ));
    assert!(!warned(
        base().max_attempts(1).backoff(Backoff::none()),
        "backoff"
    ));
    assert!(warned(base().budget(None), "budget is false"));
    assert!(warned(
        base().retry_unsafe_methods(true),
        "retry_unsafe_methods"
    ));
    let low = Backoff::exponential(millis(900)).cap(millis(300));
    assert!(warned(
        base().backoff(low),
        "backoff.base is above backoff.cap"
    ));
    let slow = Backoff::exponential(Duration::from_secs(4));
    assert!(warned(
        base().deadline(Duration::from_secs(5)).backoff(slow),
        "shorter than the waits"
    ));
    let patient = RetryAfter {
        max: Duration::from_secs(300),
        ..RetryAfter::default()
    };
    assert!(warned(
        base().retry_after(patient),
        "retry_after.max is above the deadline"
    ));
}

#[test]
fn p1_an_attempt_timeout_above_the_deadline_warns_only_if_both_were_set() {
    let base = Policy::builder;
    let long = Duration::from_secs(60);
    let above = "attempt_timeout is above the deadline";
    assert!(!warned(base().deadline(Duration::from_secs(8)), above));
    assert!(!warned(base().attempt_timeout(long), above));
    assert!(warned(
        base()
            .deadline(Duration::from_secs(8))
            .attempt_timeout(long),
        above
    ));
    // Likewise for what the server may ask.
    assert!(!warned(
        base().deadline(Duration::from_secs(8)),
        "retry_after.max"
    ));
}

#[test]
fn p4_hedges_and_layers_are_told() {
    let text = explain(Policy::builder().hedge(HedgeSettings::at_quantile(0.95))).to_string();
    assert!(
        text.contains("hedges (at most 1 a call, after p95)"),
        "{text}"
    );
    assert!(text.contains("layers multiply"), "{text}");
    assert!(text.contains("up to 9"), "{text}");
}

#[test]
fn p4_a_function_from_code_is_explained_too() {
    let policy = Policy::builder()
        .max_attempts(40)
        .backoff(Backoff::custom(|n| Duration::from_secs(u64::from(40 - n))));
    let explanation = explain(policy);
    let later = explanation.later.unwrap();
    assert_eq!(
        (later.wait_shortest, later.wait_longest),
        (Duration::from_secs(1), Duration::from_secs(32))
    );
}

proptest! {
    #[test]
    fn p4_any_policy_is_explained_and_is_plain_data(
        most in 1u32..,
        (base, cap, floor) in (0..u64::MAX, 0..u64::MAX, 0..u64::MAX),
        factor in 1.0f64..1e9,
        deadline in proptest::option::of(1..u64::MAX),
        timeout in proptest::option::of(1..u64::MAX),
        kind in 0..4,
    ) {
        let nanos = Duration::from_nanos;
        let backoff = match kind {
            0 => Backoff::linear(nanos(base), nanos(floor)),
            1 => Backoff::decorrelated(nanos(base)),
            2 => Backoff::fixed(nanos(base)),
            _ => Backoff::exponential(nanos(base)).factor(factor),
        };
        let policy = Policy::builder()
            .max_attempts(most)
            .min_attempt(Duration::ZERO)
            .deadline(deadline.map(nanos))
            .attempt_timeout(timeout.map(nanos))
            .backoff(backoff.cap(nanos(cap)).floor(nanos(floor.min(cap))))
            .build()
            .unwrap();
        let explanation = Explanation::of(&policy);
        prop_assert!(!explanation.to_string().is_empty());
        let json = serde_json::to_string(&explanation).unwrap();
        let read: Explanation = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&read.schedule, &explanation.schedule);
        prop_assert_eq!(&read.longest, &explanation.longest);
        for planned in &explanation.schedule {
            prop_assert!(planned.latest_start.is_none_or(|latest| latest >= planned.earliest_start));
            prop_assert!(planned.wait_shortest <= planned.wait_longest);
        }
    }
}
