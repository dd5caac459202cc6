use super::{near, simulated, value};

#[test]
fn bernoulli_retry_load_and_success_are_the_closed_forms() {
    for (f, r) in [(0.1, 4.0), (0.3, 2.0), (0.5, 4.0), (0.9, 6.0), (1.0, 4.0)] {
        let outcome = simulated(
            "bernoulli-retry",
            &[("failure_rate", f), ("attempts", r)],
            1,
        );
        let is = |name: &str| value(&outcome, "retries", name);
        near(
            is("load_per_call"),
            is("load_per_call_formula"),
            0.02 * is("load_per_call_formula"),
        );
        near(is("success_ratio"), is("success_ratio_formula"), 0.008);
    }
}

#[test]
fn retry_bucket_loads_are_the_measured_ones() {
    // (failure rate, success and load of none, retries, bucket, breaker)
    let table = [
        (
            0.05,
            [
                (0.9498, 1.0),
                (1.0, 1.052),
                (0.9998, 1.052),
                (0.9988, 1.050),
            ],
        ),
        (
            0.075,
            [
                (0.9248, 1.0),
                (0.9999, 1.082),
                (0.9967, 1.078),
                (0.9890, 1.069),
            ],
        ),
        (
            0.1,
            [
                (0.8996, 1.0),
                (0.9998, 1.111),
                (0.9848, 1.094),
                (0.9291, 1.034),
            ],
        ),
        (
            0.2,
            [(0.7991, 1.0), (0.9984, 1.249), (0.8831, 1.104), (0.8, 1.0)],
        ),
        (
            0.5,
            [
                (0.5019, 1.0),
                (0.9377, 1.872),
                (0.5546, 1.104),
                (0.5019, 1.0),
            ],
        ),
        (1.0, [(0.0, 1.0), (0.0, 4.0), (0.0, 1.104), (0.0, 1.0)]),
    ];
    for (f, row) in table {
        let outcome = simulated("retry-bucket", &[("failure_rate", f)], 1);
        for (label, (success, load)) in ["none", "retries", "bucket", "breaker"]
            .into_iter()
            .zip(row)
        {
            near(value(&outcome, label, "success_ratio"), success, 0.009);
            near(value(&outcome, label, "load_per_call"), load, 0.012);
        }
    }
}

#[test]
fn small_clients_turn_the_bucket_into_n_retries_and_the_breaker_into_none() {
    let outcome = simulated("small-clients", &[], 10);
    for (n, bucket, breaker) in [(10, 1.104, 1.05), (100, 1.143, 1.035), (1_000, 1.46, 1.006)] {
        near(
            value(&outcome, &format!("bucket-{n}"), "load_per_call"),
            bucket,
            0.015,
        );
        near(
            value(&outcome, &format!("breaker-{n}"), "load_per_call"),
            breaker,
            0.008,
        );
    }
}

#[test]
fn breaker_early_gives_up_what_retries_save() {
    let outcome = simulated("breaker-early", &[], 4);
    near(value(&outcome, "breaker", "success_ratio"), 0.989, 0.002);
    near(value(&outcome, "retries", "success_ratio"), 0.9999, 0.0002);
}

#[test]
fn layers_multiply() {
    for (layers, attempts, load) in [(3.0, 4.0, 64.0), (5.0, 3.0, 243.0)] {
        let set = [("layers", layers), ("attempts", attempts)];
        let outcome = simulated("layers", &set, 1);
        assert_eq!(value(&outcome, "every-layer", "load_per_call"), load);
        assert_eq!(value(&outcome, "one-layer", "load_per_call"), attempts);
    }
}

#[test]
fn grpc_throttle_is_off_after_5_failures_and_back_after_51_successes() {
    let outcome = simulated("grpc-throttle", &[], 1);
    let is = |name: &str| value(&outcome, "fails-9.09%", name);
    assert_eq!(is("failures_to_disable"), 5.0);
    assert_eq!(is("successes_to_enable"), 51.0);
    near(is("drift_zero_failure_ratio"), 1.0 / 11.0, 1e-12);
    // Below the even point nearly every failure is retried, above it nearly none.
    assert!(value(&outcome, "fails-5%", "retried_ratio") > 0.9);
    assert!(value(&outcome, "fails-15%", "retried_ratio") < 0.1);
}

#[test]
fn aws_quota_pays_for_100_retries_or_50_after_timeouts() {
    let outcome = simulated("aws-quota", &[], 1);
    assert_eq!(value(&outcome, "answered", "blackout_retries"), 100.0);
    assert_eq!(value(&outcome, "timeouts", "blackout_retries"), 50.0);
}

#[test]
fn backoff_serial_helps_only_where_it_delays_the_next_first_try() {
    let outcome = simulated("backoff-serial", &[], 4);
    for label in ["open-none", "open-backoff", "serial-backoff"] {
        near(value(&outcome, label, "load_per_call"), 1.8725, 0.012);
    }
    near(value(&outcome, "open-backoff", "calls"), 100_000.0, 1_300.0);
    near(value(&outcome, "serial-backoff", "calls"), 42_902.0, 900.0);
    let outcome = simulated("backoff-serial", &[("failure_rate", 0.3)], 4);
    near(value(&outcome, "serial-backoff", "calls"), 66_339.0, 900.0);
}
