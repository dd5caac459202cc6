use super::{near, simulated, value};

#[test]
fn tail_fanout_meets_the_slow_one() {
    let outcome = simulated("tail-fanout", &[("users", 3_000.0)], 1);
    near(
        value(&outcome, "100-of-1%", "slow_ratio_formula"),
        0.634,
        5e-4,
    );
    near(value(&outcome, "100-of-1%", "slow_ratio"), 0.634, 0.035);
    near(value(&outcome, "2000-of-0.01%", "slow_ratio"), 0.1813, 0.03);
}

#[test]
fn bigtable_hedge_cuts_the_tail_for_two_percent() {
    let outcome = simulated("bigtable-hedge", &[("users", 2_000.0)], 1);
    near(value(&outcome, "hedge", "hedge_ratio"), 0.020, 5e-4);
    for (label, p50, p99, p999) in [("none", 82.0, 606.0, 1_800.0), ("hedge", 19.2, 38.2, 73.4)] {
        near(value(&outcome, label, "p50_formula_ms"), p50, 0.01 * p50);
        near(value(&outcome, label, "p99_formula_ms"), p99, 0.01 * p99);
        near(value(&outcome, label, "p999_formula_ms"), p999, 0.01 * p999);
        // 2,000 users are 20 beyond the p99 and 2 beyond the p99.9.
        near(value(&outcome, label, "p50_ms"), p50, 0.05 * p50);
        near(value(&outcome, label, "p99_ms"), p99, 0.25 * p99);
    }
    let tail = |label: &str| value(&outcome, label, "p999_ms");
    assert!(tail("none") > 10.0 * tail("hedge"));
}

#[test]
fn hedge_load_twice_pays_below_a_third() {
    let outcome = simulated("hedge-load", &[("requests", 150_000.0)], 1);
    near(value(&outcome, "threshold", "threshold_exp"), 0.331, 0.02);
    near(value(&outcome, "threshold", "threshold_det"), 0.2615, 0.015);
    near(value(&outcome, "exp-once", "mean_ms"), 14.31, 0.3);
    near(value(&outcome, "exp-twice", "mean_ms"), 12.61, 0.4);
}

#[test]
fn hedge_storm_feeds_on_itself_and_a_budget_stops_it() {
    let outcome = simulated("hedge-storm", &[("requests", 300_000.0)], 1);
    assert!(value(&outcome, "hedge", "hedge_ratio") > 0.97);
    assert!(value(&outcome, "hedge", "p99_ms") > 10_000.0);
    near(
        value(&outcome, "hedge-budget-5%", "hedge_ratio"),
        0.05,
        0.002,
    );
    near(value(&outcome, "none", "p99_ms"), 339.0, 40.0);
    near(value(&outcome, "hedge-budget-5%", "p99_ms"), 321.0, 40.0);
    let quiet = simulated(
        "hedge-storm",
        &[("requests", 300_000.0), ("utilisation", 0.5)],
        1,
    );
    near(value(&quiet, "hedge", "hedge_ratio"), 0.158, 0.03);
}
