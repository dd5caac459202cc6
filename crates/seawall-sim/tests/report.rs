//! What reports show.

use seawall_sim::{CaseOutcome, Control, Experiment, Outcome, PhaseDiagram, scenario};

/// Two by two cells, one of each kind.
fn mapped() -> Outcome {
    let map = PhaseDiagram {
        loads: vec![147.0, 294.0],
        triggers: vec![2.5, 1.25],
        collapsed: vec![vec![0.25, 1.0], vec![0.0, 0.75]],
    };
    Outcome {
        scenario: "map".into(),
        about: "load by trigger".into(),
        seed: 1,
        runs: 1,
        parameters: Vec::new(),
        results: vec![CaseOutcome {
            label: "map".into(),
            runs: 1,
            scalars: Vec::new(),
            series: Vec::new(),
            map: Some(map),
            verdict: Vec::new(),
        }],
        stopped: false,
    }
}

#[test]
fn phase_diagrams_have_a_cell_with_colour_mark_and_hover_for_each_point() {
    let outcome = mapped();
    for text in [outcome.to_svg(), outcome.to_html()] {
        // Four cells and the four of the legend.
        assert_eq!(text.matches("class=\"cell ").count(), 8);
        for kind in ["back", "some", "most", "never"] {
            let cells = format!("class=\"cell {kind}\"");
            assert_eq!(text.matches(&cells).count(), 2, "{kind}");
        }
        // One stroke for some, two for most, a core for never: each in a cell and the legend.
        assert_eq!(text.matches("class=\"mark\"").count(), 2 + 4);
        assert_eq!(text.matches("class=\"core\"").count(), 2);
        for hover in [
            "<title>147 calls per second, 2.5 s: 25 % of the runs did not come back</title>",
            "<title>294 calls per second, 2.5 s: 100 % of",
            "<title>294 calls per second, 1.25 s: 75 % of",
        ] {
            assert!(text.contains(hover), "{hover}");
        }
        for axis in [
            "load, calls per second",
            "length of the trigger, seconds",
            ">147<",
            ">1.25<",
        ] {
            assert!(text.contains(axis), "{axis}");
        }
        assert!(text.contains("prefers-color-scheme:dark"));
    }
}

#[test]
fn phase_diagrams_on_a_terminal_and_in_json_are_the_same_map() {
    let outcome = mapped();
    let text = outcome.to_text(100);
    assert!(text.contains("2.50 │░░░███"), "{text}");
    assert!(text.contains("1.25 │···▒▒▒"), "{text}");
    let map = &outcome.to_json()["results"][0]["map"];
    assert_eq!(map["loads_per_s"], serde_json::json!([147, 294]));
    assert_eq!(
        map["collapsed_ratio"],
        serde_json::json!([[0.25, 1], [0, 0.75]])
    );
}

#[test]
fn phase_diagrams_of_several_runs_are_their_mean() {
    let scenario = scenario("phase-diagram").unwrap();
    let mut parameters = scenario.defaults();
    parameters.set("steps", 3.0).unwrap();
    parameters.set("seeds", 1.0).unwrap();
    parameters.set("outage_max_s", 3.0).unwrap();
    let experiment = |runs| Experiment {
        scenario: scenario.name.into(),
        about: String::new(),
        parameters: Vec::new(),
        cases: scenario.cases(&parameters),
        seed: 1,
        runs,
        threads: 0,
    };
    let outcome = experiment(2).run(&Control::default()).unwrap();
    let map = outcome.results[0].map.as_ref().unwrap();
    let mean = map.collapsed.concat().iter().sum::<f64>() / 9.0;
    let scalar = outcome.results[0].value("collapsed_ratio").unwrap();
    assert!((mean - scalar).abs() < 1e-12, "{mean}, {scalar}");
    // A third of the capacity always comes back; nearly all of it, after three seconds, never.
    assert_eq!((map.collapsed[0][0], map.collapsed[0][2]), (0.0, 1.0));
}
