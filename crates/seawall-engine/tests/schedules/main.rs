//! Random schedules: any policy, any facts in any order and at any time, any answer of the guards.
//! Whatever happens, the rules that bound a call hold. A failure names the seed that shows it.

mod chance;
mod ledger;
mod watched;

use std::panic::{AssertUnwindSafe, catch_unwind};

use watched::Watched;

const SCHEDULES: u64 = 100_000;

#[test]
fn no_schedule_breaks_a_rule() {
    let (mut retries, mut hedges) = (0, 0);
    for seed in 0..SCHEDULES {
        match catch_unwind(AssertUnwindSafe(|| Watched::new(seed).run())) {
            Ok(sent) => (retries, hedges) = (retries + sent.0, hedges + sent.1),
            Err(_) => panic!("schedule {seed} breaks a rule"),
        }
    }
    println!("{retries} retries and {hedges} hedges in {SCHEDULES} schedules");
    assert!(
        retries > SCHEDULES / 3 && hedges > SCHEDULES / 5,
        "{retries} retries, {hedges} hedges"
    );
}

/// A recorded call replays as itself, byte for byte, through its text form.
#[test]
fn every_schedule_replays_as_itself() {
    for seed in 0..SCHEDULES / 50 {
        let mut watched = Watched::new(seed);
        watched.run();
        let text = serde_json::to_string(&watched.trace).unwrap();
        let read: seawall_engine::Trace = serde_json::from_str(&text).unwrap();
        assert_eq!(read.replay(), watched.trace, "schedule {seed}");
        assert_eq!(
            serde_json::to_string(&read.replay()).unwrap(),
            text,
            "schedule {seed}"
        );
    }
}
