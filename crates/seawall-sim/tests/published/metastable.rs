use super::{near, never, simulated, value};

#[test]
fn hotos_280_with_one_retry_never_comes_back() {
    let outcome = simulated("hotos-280", &[], 4);
    assert_eq!(value(&outcome, "retry", "metastable"), 1.0);
    assert!(never(&outcome, "retry", "recovery_s"));
    assert_eq!(value(&outcome, "retry", "goodput_tail_per_s"), 0.0);
    near(value(&outcome, "retry", "attempts_tail_per_s"), 560.0, 8.0);
    // 2800 - 300 requests at 20/s are 125 s; the arrivals' chance alone spreads that by 9 s.
    near(value(&outcome, "no-retry", "recovery_s"), 125.0, 20.0);
    assert_eq!(value(&outcome, "no-retry", "metastable"), 0.0);
}

#[test]
fn hidden_capacity_is_half_of_the_servers() {
    let outcome = simulated("hidden-capacity", &[], 1);
    assert_eq!(value(&outcome, "load-140", "metastable"), 0.0);
    assert_eq!(value(&outcome, "load-155", "metastable"), 1.0);
    near(
        value(&outcome, "boundary", "hidden_capacity_per_s"),
        150.0,
        4.0,
    );
    for (load, shortest) in [(160, 1.47), (200, 1.20), (240, 1.06), (280, 1.01)] {
        let name = format!("shortest_outage_at_{load}_per_s_s");
        near(value(&outcome, "boundary", &name), shortest, 0.12);
    }
}

#[test]
fn hotos_cures_cure_and_the_others_do_not() {
    let outcome = simulated("hotos-cures", &[], 6);
    for label in ["retry", "jitter", "budget-10%", "queue-2s"] {
        assert_eq!(value(&outcome, label, "metastable"), 1.0, "{label}");
    }
    near(value(&outcome, "budget-2%", "recovery_s"), 187.0, 40.0);
    near(
        value(&outcome, "budget-10%-lower-load", "recovery_s"),
        92.0,
        20.0,
    );
    near(value(&outcome, "breaker", "recovery_s"), 11.0, 4.0);
    near(value(&outcome, "lifo", "recovery_s"), 0.0, 2.0);
    assert_eq!(value(&outcome, "queue-0.5s", "recovery_s"), 0.0);
    // Ours counts from when 95 % of the calls succeed again, which with expired work dropped comes
    // late: half of them succeed, on the edge of their second, long before.
    let dropping = value(&outcome, "drop-expired", "recovery_s");
    assert!((30.0..130.0).contains(&dropping), "{dropping}");
}

#[test]
fn mongo_quartet_one_of_four_is_metastable() {
    let outcome = simulated("mongo-quartet", &[], 1);
    for (label, metastable) in [
        ("10s-at-22%", 0.0),
        ("10s-at-20%", 1.0),
        ("9s-at-20%", 0.0),
        ("10s-at-20%-lower-load", 0.0),
    ] {
        assert_eq!(value(&outcome, label, "metastable"), metastable, "{label}");
    }
}

#[test]
fn collapse_spike_grows_from_never_to_always() {
    // Published over 60 seeds: 0, 10, 39 and 60 of them; with backoff 0 at 5 s and 59 at 10 s. Over
    // 1000 seeds the published program gives 75 % at 5 s, ours 76 %.
    for (spike, share, by) in [
        (3.0, 0.0, 0.05),
        (4.0, 0.17, 0.22),
        (5.0, 0.65, 0.25),
        (7.0, 1.0, 0.0),
    ] {
        let outcome = simulated("collapse-spike", &[("spike_s", spike)], 60);
        near(value(&outcome, "no-backoff", "metastable"), share, by);
        if spike <= 5.0 {
            assert_eq!(value(&outcome, "backoff", "metastable"), 0.0);
        }
    }
    let outcome = simulated("collapse-spike", &[("spike_s", 10.0)], 60);
    near(value(&outcome, "backoff", "metastable"), 0.98, 0.05);
}
