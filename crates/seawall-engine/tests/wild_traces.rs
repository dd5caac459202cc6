//! A trace is read from files of anybody's making: whatever is in it, running it again ends, panics
//! nowhere, and gives a trace that replays as itself.

use std::fs;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use seawall_engine::{
    Action, Answer, Exchange, Fact, Failure, HedgeSettings, Hint, Outcome, Phase, Policy, Question,
    Request, Settled, Step, Time, Trace, Wait,
};

fn times() -> impl Strategy<Value = Time> {
    let near = (0..20_000_000_000u64).prop_map(Time::from_nanos);
    prop_oneof![Just(Time::ZERO), Just(Time::NEVER), near.clone(), near]
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Free),
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>()].prop_map(Answer::Granted),
        times().prop_map(Answer::Until),
        prop_oneof![Just(Duration::ZERO), Just(Duration::MAX)].prop_map(Answer::After),
        (0..3u64).prop_map(Answer::Queued),
        times().prop_map(Answer::Refused),
    ]
}

fn questions() -> impl Strategy<Value = Question> {
    prop_oneof![
        Just(Question::Cooldown),
        Just(Question::Budget(Failure::Answered)),
        any::<u64>().prop_map(Question::Throttle),
        times().prop_map(Question::LookAhead),
        Just(Question::Look),
        times().prop_map(Question::Limiter),
        Just(Question::Bulkhead),
        Just(Question::Permit),
        Just(Question::HedgeDelay),
    ]
}

fn facts() -> impl Strategy<Value = Fact> {
    let number = || prop_oneof![4 => 0..5u32, 1 => Just(u32::MAX)];
    let outcome = prop_oneof![
        Just(Outcome::Success),
        Just(Outcome::Permanent),
        Just(Outcome::Cancelled),
        Just(Outcome::Transient(Phase::Ambiguous)),
        Just(Outcome::Transient(Phase::Unprocessed)),
        Just(Outcome::Throttled(Phase::Unprocessed)),
    ];
    let wait = prop_oneof![
        Just(None),
        Just(Some(Duration::ZERO)),
        Just(Some(Duration::MAX))
    ];
    let ended = (number(), outcome, wait, any::<[bool; 4]>());
    let ended = ended.prop_map(|(number, outcome, wait, [held, retire, shared, forbids])| {
        let hint = Hint {
            wait,
            forbids,
            shared,
        };
        let settled = Settled {
            held,
            retire,
            hint,
            ..Settled::new(outcome)
        };
        Fact::Ended { number, settled }
    });
    prop_oneof![
        3 => Just(Fact::Time),
        6 => ended,
        1 => Just(Fact::Cancelled),
        1 => Just(Fact::Drained),
        1 => Just(Fact::Admitted),
        1 => number().prop_map(|number| Fact::Progressed { number }),
        1 => any::<bool>().prop_map(Fact::Replayable),
        1 => Just(Fact::Dropped),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let asked = (questions(), answers());
    let asked = asked.prop_map(|(question, answer)| Exchange { question, answer });
    let step = (times(), facts(), vec(asked, 0..8), 0..4usize);
    let step = step.prop_map(|(at, fact, asked, polls)| {
        let wait = Action::Wait(Wait {
            until: at,
            drain: false,
            ticket: 0,
        });
        Step {
            at,
            fact,
            asked,
            told: Vec::new(),
            actions: vec![wait; polls],
        }
    });
    vec(step, 0..30)
}

fn policies() -> Vec<Policy> {
    let hedging = HedgeSettings {
        max: 3,
        ..HedgeSettings::default()
    };
    let hasty = Policy::builder()
        .max_attempts(6)
        .attempt_timeout(Duration::from_millis(1))
        .hedge(HedgeSettings::after(Duration::from_nanos(1)));
    vec![
        Policy::default(),
        Policy::builder()
            .max_attempts(9)
            .hedge(hedging)
            .build()
            .unwrap(),
        hasty.build().unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wild_trace_ends_and_its_replay_replays_as_itself(
        steps in steps(),
        policy in 0..3usize,
        seed in any::<u64>(),
        began in times(),
    ) {
        let policy = &policies()[policy];
        let wild = Trace {
            steps,
            ..Trace::new(policy, Request::default(), seed, began)
        };
        let once = wild.replay();
        prop_assert_eq!(&once.replay(), &once);
        let text = serde_json::to_string(&once).unwrap();
        let read: Trace = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read, once);
    }
}

/// The cases' own files with the answers of one and the facts of another.
#[test]
fn steps_of_different_traces_in_one() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces");
    let texts = fs::read_dir(folder).unwrap();
    let traces: Vec<serde_json::Value> = texts
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect();
    let bare = |mut trace: serde_json::Value| -> Trace {
        for step in trace["steps"].as_array_mut().unwrap() {
            let step = step.as_object_mut().unwrap();
            step.remove("told");
            step.remove("actions");
        }
        serde_json::from_value(trace).unwrap()
    };
    let traces: Vec<Trace> = traces.into_iter().map(bare).collect();
    for one in &traces {
        for other in &traces {
            let mut both = one.clone();
            for (place, step) in other.steps.iter().enumerate() {
                both.steps
                    .insert((2 * place + 1).min(both.steps.len()), step.clone());
            }
            for step in &mut both.steps {
                let wait = Action::Wait(Wait {
                    until: step.at,
                    drain: false,
                    ticket: 0,
                });
                step.actions = vec![wait; 3];
            }
            let once = both.replay();
            assert_eq!(once.replay(), once);
        }
    }
}
