//! `preset:go-zero`

use seawall::{Answer, Guard, Outcome, Question};

use crate::stage::Stage;
use crate::vector::*;
use crate::virtual_driver::{AMBIGUOUS, ms};

fn lets_through(stage: &Stage, draw: u64) -> bool {
    stage.guards.ask(Question::Throttle(draw), stage.now) == Answer::Free
}

fn with_k(id: &str) -> Stage {
    let config = &vector(id)["config"];
    let assigned = [
        set("throttle.k", &config["k"]),
        set("throttle.protect", &config["protection"]),
    ];
    Stage::new(&with("go-zero", &assigned))
}

/// The draw of 0 is refused at the smallest share.
#[test]
fn gz_4_failures() {
    let stage = with_k("gz-4-failures");
    (0..4).for_each(|_| stage.settle(0, AMBIGUOUS, ms(1)));
    let accept = vector("gz-4-failures")["expected"]["accept"].as_bool();
    assert_eq!(Some(lets_through(&stage, 0)), accept);
}

#[test]
fn gz_all_success() {
    let stage = with_k("gz-all-success");
    let vector = vector("gz-all-success");
    for (expected, successes) in list(&vector, "expected").iter().zip([80, 120]) {
        (0..successes).for_each(|_| stage.settle(0, Outcome::Success, ms(1)));
        assert_eq!(Some(lets_through(&stage, 0)), expected.as_bool());
    }
}

#[test]
fn gz_drop_ratio() {
    let vector = vector("gz-drop-ratio");
    let config = &vector["config"];
    let policy = with(
        "go-zero",
        &[
            set("throttle.k", &config["k"]),
            set("throttle.k_min", &config["min_k"]),
            set("throttle.protect", &config["protection"]),
        ],
    );
    let settings = policy.throttle.as_ref().unwrap();
    for (event, expected) in pairs(&vector) {
        let [total, accepts, failing, working] =
            [0, 1, 2, 3].map(|column| event[column].as_u64().unwrap());
        let rate = settings.rejection_rate(total, accepts, failing as u32, working as u32);
        let off = (rate - expected.as_f64().unwrap()).abs();
        assert!(off < 1e-5, "{event}: {rate}, not {expected}");
    }
}

#[test]
fn gt_the_share_is_what_the_draw_is_held_against() {
    // Ten failures in one bucket: one that failed alone, K = 1.49. (10 - 5) / 11.
    for (share, passes) in [(0.454, false), (0.455, true)] {
        let stage = Stage::new(&with("go-zero", &[]));
        (0..10).for_each(|_| stage.settle(0, AMBIGUOUS, ms(1)));
        let draw = (share * 2f64.powi(64)) as u64;
        assert_eq!(lets_through(&stage, draw), passes);
    }
}
