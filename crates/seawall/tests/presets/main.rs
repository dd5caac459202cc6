//! Each preset replays what its origin's own tests expect (`tests/data/peer-vectors.json`), through
//! the public policy and guards made of the preset's file. Only what a vector states itself is
//! assigned; random draws are put in. Where ours is another answer on purpose, the test shows it
//! and names the rule; `docs/peer-differences.md` lists them all.
#![cfg(feature = "config")]

#[path = "../../../seawall-engine/tests/virtual_driver/mod.rs"]
mod virtual_driver;

mod aws;
mod cenkalti;
mod envoy;
mod finagle;
mod go_retryablehttp;
mod go_zero;
mod grpc;
mod hystrix;
mod polly;
mod resilience4j;
mod sentinel;
mod stage;
mod vector;

use vector::{test_name, vectors};

/// The peers whose vectors have a preset to run through.
const WITH_PRESET: [&str; 12] = [
    "Microsoft.Extensions.Http.Resilience",
    "Polly",
    "aws-sdk standard (smithy-rs)",
    "cenkalti/backoff",
    "envoy",
    "finagle",
    "gRPC A6",
    "go-retryablehttp",
    "go-zero",
    "hystrix-go",
    "resilience4j",
    "sentinel-golang",
];

#[test]
fn every_vector_of_a_presets_origin_runs_through_it() {
    let source = [
        include_str!("aws.rs"),
        include_str!("cenkalti.rs"),
        include_str!("envoy.rs"),
        include_str!("finagle.rs"),
        include_str!("go_retryablehttp.rs"),
        include_str!("go_zero.rs"),
        include_str!("grpc.rs"),
        include_str!("hystrix.rs"),
        include_str!("polly.rs"),
        include_str!("resilience4j.rs"),
        include_str!("sentinel.rs"),
    ]
    .concat();
    let missing: Vec<String> = vectors()
        .iter()
        .filter(|vector| WITH_PRESET.contains(&vector["system"].as_str().unwrap()))
        .map(|vector| test_name(vector["id"].as_str().unwrap()))
        .filter(|name| !source.contains(&format!("fn {name}()")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
