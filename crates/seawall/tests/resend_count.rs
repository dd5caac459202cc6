//! What a span of an attempt says of itself, known from its record.

use seawall::{Backoff, Policy};
use serde_json::Value;

/// `http.request.resend_count`: absent on the first, then how often it was sent again, for whatever
/// reason. It is the attempt's number less one.
#[tokio::test]
async fn ot_resend() {
    let text = include_str!("../../../tests/data/peer-vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    let vector = vectors.iter().find(|vector| vector["id"] == "ot-resend");
    let vector = vector.expect("the vector");
    let statuses = vector["events"].as_array().unwrap();
    let policy = Policy::builder().backoff(Backoff::none()).build().unwrap();
    let (_, report) = seawall::retry_with(&policy, |attempt| {
        let status = &statuses[attempt.number as usize - 1];
        async move { if *status == 200 { Ok(()) } else { Err(()) } }
    })
    .reported()
    .await
    .unwrap();
    let counts: Vec<Value> = report
        .attempts()
        .map(|record| match record.number - 1 {
            0 => Value::Null,
            resent => Value::from(resent),
        })
        .collect();
    assert_eq!(Value::from(counts), vector["expected"]);
}
