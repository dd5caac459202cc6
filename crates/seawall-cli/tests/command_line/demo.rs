use serde_json::Value;

use crate::process::seawall;

/// A short one: the whole takes half a minute.
#[test]
fn the_table_compares_a_loop_with_seawall() {
    let run = seawall(["demo", "--json", "--seconds", "8"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.text().lines().count(), 1);
    let table: Value = serde_json::from_slice(&run.stdout).unwrap();
    let contenders = table["contenders"].as_array().unwrap();
    assert_eq!(contenders.len(), 2);
    let (naive, seawall) = (&contenders[0], &contenders[1]);
    assert_eq!(seawall["name"], "seawall");
    for contender in contenders {
        assert_eq!(contender["calls"], 320);
        assert!(contender["p99_ms"].as_f64().unwrap() >= contender["p50_ms"].as_f64().unwrap());
    }
    // No more than the budget's fifth, and its burst and reserve.
    assert!(seawall["attempts"].as_u64().unwrap() <= 320 + 64 + 10 + 20);
    assert_eq!(seawall["duplicates"], 0);
    assert!(naive["attempts"].as_u64().unwrap() > 2 * seawall["attempts"].as_u64().unwrap());
    assert!(naive["duplicates"].as_u64().unwrap() > 0);
    assert!(run.stderr.contains("OUTAGE"));
}
