use super::{near, never, simulated, value};

#[test]
fn open_closed_the_closed_loop_sees_no_queue() {
    let outcome = simulated("open-closed", &[("duration_s", 150.0)], 2);
    near(value(&outcome, "open", "mean_ms"), 0.5, 0.012);
    near(value(&outcome, "open", "p99_ms"), 0.5 * 100f64.ln(), 0.08);
    near(value(&outcome, "closed-1", "mean_ms"), 0.1, 0.001);
    near(
        value(&outcome, "closed-1", "p99_ms"),
        0.1 * 100f64.ln(),
        0.01,
    );
    // 300,000 ms with a correlation time of about 140 ms: 2,000 independent ones, sd about 9 ms.
    near(
        value(&outcome, "bimodal-open", "mean_formula_ms"),
        4.113,
        0.001,
    );
    near(value(&outcome, "bimodal-open", "mean_ms"), 4.113, 0.7);
    assert!(value(&outcome, "bimodal-open", "p99_ms") > 25.0);
    assert!(value(&outcome, "bimodal-closed-1", "p99_ms") < 1.0);
    assert!(never(&outcome, "retry-after-15ms", "mean_ms"));
    assert!(value(&outcome, "retry-after-15ms", "queue_peak") > 100_000.0);
}

#[test]
fn mm1_mm10_and_mm100_wait_as_erlang_says() {
    // The standard error of the mean wait is below 1 % (2 % at 90 % load) for these lengths.
    for (servers, rho, duration) in [
        (1.0, 0.8, 40_000.0),
        (10.0, 0.8, 4_000.0),
        (100.0, 0.9, 1_000.0),
    ] {
        let set = [
            ("servers", servers),
            ("utilisation", rho),
            ("duration_s", duration),
        ];
        let outcome = simulated("mmc", &set, 2);
        let expected = value(&outcome, "mmc", "mean_formula_ms");
        near(value(&outcome, "mmc", "mean_ms"), expected, 0.04 * expected);
    }
}

#[test]
fn mg1_takes_as_long_as_pollaczek_and_khinchine_say() {
    let outcome = simulated("mg1", &[("duration_s", 8_000.0)], 2);
    for label in [
        "constant",
        "exponential",
        "uniform",
        "lognormal",
        "hyperexponential",
    ] {
        let expected = value(&outcome, label, "mean_formula_ms");
        let by = if label == "hyperexponential" {
            0.06
        } else {
            0.025
        };
        near(value(&outcome, label, "mean_ms"), expected, by * expected);
    }
}
