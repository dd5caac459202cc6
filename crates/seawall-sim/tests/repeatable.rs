//! The same seed, the same bytes; another policy, the same world.

use seawall_engine::{
    Backoff, Call, Fact, Jitter, KeyGuards, Outcome, Phase, Policy, Request, Settled, Time, Trace,
};
use seawall_sim::{Control, Experiment, Outcome as Result, replay, scenario};

fn outcome(name: &str, set: &[(&str, f64)], seed: u64, runs: u32, threads: usize) -> Result {
    let scenario = scenario(name).unwrap();
    let mut parameters = scenario.defaults();
    set.iter()
        .for_each(|(name, value)| parameters.set(name, *value).unwrap());
    let experiment = Experiment {
        scenario: name.into(),
        about: String::new(),
        parameters: Vec::new(),
        cases: scenario.cases(&parameters),
        seed,
        runs,
        threads,
    };
    experiment.run(&Control::default()).unwrap()
}

fn bytes(outcome: &Result) -> String {
    let mut json = outcome.to_json();
    for result in json["results"].as_array_mut().unwrap() {
        let scalars = result["scalars"].as_object_mut().unwrap();
        scalars.remove("events_per_s");
        scalars.remove("events_per_s_sd");
    }
    json.to_string()
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    for (name, set) in [
        ("occ-aws", vec![("clients", 40.0)]),
        ("hotos-cures", vec![("duration_s", 80.0)]),
        ("retry-bucket", vec![("duration_s", 3.0)]),
        ("hedge-storm", vec![("requests", 20_000.0)]),
        (
            "sre-shed",
            vec![
                ("duration_s", 10.0),
                ("capacity_per_s", 500.0),
                ("rate_per_s", 600.0),
            ],
        ),
    ] {
        let one = bytes(&outcome(name, &set, 5, 3, 1));
        assert_eq!(one, bytes(&outcome(name, &set, 5, 3, 2)), "{name}");
        assert_ne!(one, bytes(&outcome(name, &set, 6, 3, 1)), "{name}");
    }
}

/// Frozen: whatever machine and whatever version of the library of mathematics.
#[test]
fn a_seed_gives_the_same_run_on_every_machine() {
    let outcome = outcome("occ-aws", &[("clients", 25.0)], 20_150_304, 1, 1);
    let runs: Vec<(f64, f64)> = outcome
        .results
        .iter()
        .map(|case| (case.value("calls").unwrap(), case.value("time_ms").unwrap()))
        .collect();
    assert_eq!(runs, FROZEN);
}

const FROZEN: [(f64, f64); 5] = [
    (196.0, 600.838692),
    (193.0, 17_210.121846),
    (146.0, 2_257.951177),
    (137.0, 912.751722),
    (140.0, 763.876502),
];

#[test]
fn another_policy_meets_the_same_arrivals_and_the_same_first_answers() {
    let outcome = outcome("hotos-cures", &[("duration_s", 80.0)], 3, 1, 0);
    let calls = outcome.case("retry").unwrap().series("calls").unwrap();
    for label in [
        "no-retry",
        "jitter",
        "budget-10%",
        "breaker",
        "lifo",
        "queue-2s",
    ] {
        assert_eq!(
            outcome.case(label).unwrap().series("calls").unwrap(),
            calls,
            "{label}"
        );
    }
    // Until the outage nothing fails, so there is nothing a policy could do.
    let good = |label: &str| outcome.case(label).unwrap().series("goodput").unwrap()[..20].to_vec();
    assert_eq!(good("retry"), good("no-retry"));
}

/// A call as a driver in production records it: real guards, times as they came.
fn recorded(seed: u64, policy: &Policy, guards: &KeyGuards) -> Trace {
    let began = Time::from_nanos(1_000_000_007 * (seed + 1));
    let request = Request::default();
    let mut call = Call::new(policy, request, seed, began);
    let mut trace = Trace::new(policy, request, seed, began);
    let mut now = began;
    let mut in_flight = Vec::new();
    for turn in 0..200u64 {
        match trace.poll(&mut call, guards, now) {
            seawall_engine::Action::Start(start) => in_flight.push(start.number),
            seawall_engine::Action::Abandon { number, .. } => in_flight.retain(|&n| n != number),
            seawall_engine::Action::Finish(_) => return trace,
            seawall_engine::Action::Wait(wait) => {
                let late = Time::from_nanos(now.as_nanos() + 7_000_000 + 1_234_567 * (turn % 9));
                let answers =
                    !in_flight.is_empty() && !(seed + turn).is_multiple_of(4) && late < wait.until;
                if answers {
                    now = late;
                    let number = in_flight.remove(0);
                    let outcome = match (seed + turn) % 5 {
                        0 => Outcome::Success,
                        1 => Outcome::Throttled(Phase::Unprocessed),
                        _ => Outcome::Transient(Phase::Ambiguous),
                    };
                    let settled = Settled::new(outcome);
                    trace.fact(&mut call, guards, now, Fact::Ended { number, settled });
                } else {
                    // A timer is never early, and a little late.
                    now = Time::from_nanos(wait.until.as_nanos() + 60_000 + turn);
                }
            }
        }
    }
    panic!("the call does not end");
}

#[test]
fn recorded_calls_take_the_same_decisions_in_the_simulator_byte_for_byte() {
    let policy = Policy::builder()
        .max_attempts(4)
        .backoff(Backoff::exponential(std::time::Duration::from_millis(40)).jitter(Jitter::Full))
        .hedge(seawall_engine::HedgeSettings::after(
            std::time::Duration::from_millis(20),
        ))
        .build()
        .unwrap();
    let guards = KeyGuards::with_seed(&policy, 11, Time::ZERO);
    for seed in 0..300 {
        let trace = recorded(seed, &policy, &guards);
        let written = serde_json::to_string(&trace).unwrap();
        let read: Trace = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&replay(&read)).unwrap(), written);
    }
}
