//! The cases of `tests/data/idempotency.json`, and more of the same form, each on every store that
//! its mode allows. Each server is a process of its own.
//!
//! Not on memory: a case that kills the process. On Postgres only: the one that stops the store.

mod client;
mod runner;
mod server;

use std::collections::BTreeSet;

use serde_json::Value;

const GIVEN: &str = include_str!("../../../../tests/data/idempotency.json");
const MORE: &str = include_str!("more.json");

macro_rules! cases {
    ($list:ident of $file:ident: $($name:ident = $id:literal on $store:literal;)*) => {
        $(
            #[test]
            fn $name() {
                runner::play(&serde_json::from_str($file).unwrap(), $id, $store);
            }
        )*

        const $list: &[(&str, &str)] = &[$(($id, $store)),*];
    };
}

/// Not a case: the server of one, when a case starts this program again for it.
#[test]
fn case_server() {
    if let Ok(specification) = std::env::var(server::ENVIRONMENT) {
        server::run(&specification);
    }
}

#[test]
fn every_case_has_its_tests() {
    for (file, list) in [(GIVEN, GIVEN_TESTS), (MORE, MORE_TESTS)] {
        let file: Value = serde_json::from_str(file).unwrap();
        let tested: BTreeSet<_> = list.iter().copied().collect();
        for case in file["cases"].as_array().unwrap() {
            let id = case["id"].as_str().unwrap();
            for store in ["memory", "sqlite", "postgres", "redis"] {
                assert_eq!(
                    tested.contains(&(id, store)),
                    allows(case, store),
                    "{id} on {store}"
                );
            }
        }
    }
}

fn allows(case: &Value, store: &str) -> bool {
    let text = case.to_string();
    if text.contains("store_immediate_stop") {
        return store == "postgres";
    }
    let mode = case["store_mode"].as_str().unwrap();
    match store {
        "memory" => !text.contains("kill9"),
        "redis" => matches!(mode, "any" | "lease"),
        _ => true,
    }
}

cases! { GIVEN_TESTS of GIVEN:
    h01_memory = "H01" on "memory";
    h01_sqlite = "H01" on "sqlite";
    h01_postgres = "H01" on "postgres";
    h01_redis = "H01" on "redis";
    h02_memory = "H02" on "memory";
    h02_sqlite = "H02" on "sqlite";
    h02_postgres = "H02" on "postgres";
    h02_redis = "H02" on "redis";
    h03_memory = "H03" on "memory";
    h03_sqlite = "H03" on "sqlite";
    h03_postgres = "H03" on "postgres";
    h03_redis = "H03" on "redis";
    h04_memory = "H04" on "memory";
    h04_sqlite = "H04" on "sqlite";
    h04_postgres = "H04" on "postgres";
    h04_redis = "H04" on "redis";
    h05_memory = "H05" on "memory";
    h05_sqlite = "H05" on "sqlite";
    h05_postgres = "H05" on "postgres";
    h05_redis = "H05" on "redis";
    h06_memory = "H06" on "memory";
    h06_sqlite = "H06" on "sqlite";
    h06_postgres = "H06" on "postgres";
    h06_redis = "H06" on "redis";
    h08_memory = "H08" on "memory";
    h08_sqlite = "H08" on "sqlite";
    h08_postgres = "H08" on "postgres";
    h08_redis = "H08" on "redis";
    h09_memory = "H09" on "memory";
    h09_sqlite = "H09" on "sqlite";
    h09_postgres = "H09" on "postgres";
    h09_redis = "H09" on "redis";
    p01_memory = "P01" on "memory";
    p01_sqlite = "P01" on "sqlite";
    p01_postgres = "P01" on "postgres";
    p01_redis = "P01" on "redis";
    p02_memory = "P02" on "memory";
    p02_sqlite = "P02" on "sqlite";
    p02_postgres = "P02" on "postgres";
    p02_redis = "P02" on "redis";
    p04_memory = "P04" on "memory";
    p04_sqlite = "P04" on "sqlite";
    p04_postgres = "P04" on "postgres";
    p04_redis = "P04" on "redis";
    p05_memory = "P05" on "memory";
    p05_sqlite = "P05" on "sqlite";
    p05_postgres = "P05" on "postgres";
    p05_redis = "P05" on "redis";
    p06_memory = "P06" on "memory";
    p06_sqlite = "P06" on "sqlite";
    p06_postgres = "P06" on "postgres";
    p06_redis = "P06" on "redis";
    p08_memory = "P08" on "memory";
    p08_sqlite = "P08" on "sqlite";
    p08_postgres = "P08" on "postgres";
    p08_redis = "P08" on "redis";
    f01_memory = "F01" on "memory";
    f01_sqlite = "F01" on "sqlite";
    f01_postgres = "F01" on "postgres";
    f01_redis = "F01" on "redis";
    f02_memory = "F02" on "memory";
    f02_sqlite = "F02" on "sqlite";
    f02_postgres = "F02" on "postgres";
    f02_redis = "F02" on "redis";
    f03_memory = "F03" on "memory";
    f03_sqlite = "F03" on "sqlite";
    f03_postgres = "F03" on "postgres";
    f03_redis = "F03" on "redis";
    f04_memory = "F04" on "memory";
    f04_sqlite = "F04" on "sqlite";
    f04_postgres = "F04" on "postgres";
    f04_redis = "F04" on "redis";
    f06_memory = "F06" on "memory";
    f06_sqlite = "F06" on "sqlite";
    f06_postgres = "F06" on "postgres";
    f06_redis = "F06" on "redis";
    f08_memory = "F08" on "memory";
    f08_sqlite = "F08" on "sqlite";
    f08_postgres = "F08" on "postgres";
    f08_redis = "F08" on "redis";
    f09_memory = "F09" on "memory";
    f09_sqlite = "F09" on "sqlite";
    f09_postgres = "F09" on "postgres";
    f09_redis = "F09" on "redis";
    f11_memory = "F11" on "memory";
    f11_sqlite = "F11" on "sqlite";
    f11_postgres = "F11" on "postgres";
    f11_redis = "F11" on "redis";
    c01_memory = "C01" on "memory";
    c01_sqlite = "C01" on "sqlite";
    c01_postgres = "C01" on "postgres";
    c01_redis = "C01" on "redis";
    c02_memory = "C02" on "memory";
    c02_sqlite = "C02" on "sqlite";
    c02_postgres = "C02" on "postgres";
    c02_redis = "C02" on "redis";
    c06_memory = "C06" on "memory";
    c06_sqlite = "C06" on "sqlite";
    c06_postgres = "C06" on "postgres";
    c06_redis = "C06" on "redis";
    d01_memory = "D01" on "memory";
    d01_sqlite = "D01" on "sqlite";
    d01_postgres = "D01" on "postgres";
    d01_redis = "D01" on "redis";
    d03_memory = "D03" on "memory";
    d03_sqlite = "D03" on "sqlite";
    d03_postgres = "D03" on "postgres";
    d03_redis = "D03" on "redis";
    d06_memory = "D06" on "memory";
    d06_sqlite = "D06" on "sqlite";
    d06_postgres = "D06" on "postgres";
    d06_redis = "D06" on "redis";
    d07_memory = "D07" on "memory";
    d07_sqlite = "D07" on "sqlite";
    d07_postgres = "D07" on "postgres";
    d07_redis = "D07" on "redis";
    e01_memory = "E01" on "memory";
    e01_sqlite = "E01" on "sqlite";
    e01_postgres = "E01" on "postgres";
    e02_memory = "E02" on "memory";
    e02_sqlite = "E02" on "sqlite";
    e02_postgres = "E02" on "postgres";
    e02_redis = "E02" on "redis";
    x1a_sqlite = "X1a" on "sqlite";
    x1a_postgres = "X1a" on "postgres";
    x1c_sqlite = "X1c" on "sqlite";
    x1c_postgres = "X1c" on "postgres";
    x1d_sqlite = "X1d" on "sqlite";
    x1d_postgres = "X1d" on "postgres";
    x2_sqlite = "X2" on "sqlite";
    x2_postgres = "X2" on "postgres";
    x4_sqlite = "X4" on "sqlite";
    x4_postgres = "X4" on "postgres";
    x4_redis = "X4" on "redis";
    x6_memory = "X6" on "memory";
    x6_sqlite = "X6" on "sqlite";
    x6_postgres = "X6" on "postgres";
    x7_postgres = "X7" on "postgres";
    s01_memory = "S01" on "memory";
    s01_sqlite = "S01" on "sqlite";
    s01_postgres = "S01" on "postgres";
    s01_redis = "S01" on "redis";
    s02_memory = "S02" on "memory";
    s02_sqlite = "S02" on "sqlite";
    s02_postgres = "S02" on "postgres";
    s02_redis = "S02" on "redis";
    t01_memory = "T01" on "memory";
    t01_sqlite = "T01" on "sqlite";
    t01_postgres = "T01" on "postgres";
    t01_redis = "T01" on "redis";
    t02_memory = "T02" on "memory";
    t02_sqlite = "T02" on "sqlite";
    t02_postgres = "T02" on "postgres";
    t02_redis = "T02" on "redis";
    t04_memory = "T04" on "memory";
    t04_sqlite = "T04" on "sqlite";
    t04_postgres = "T04" on "postgres";
    t04_redis = "T04" on "redis";
    t05_memory = "T05" on "memory";
    t05_sqlite = "T05" on "sqlite";
    t05_postgres = "T05" on "postgres";
    t05_redis = "T05" on "redis";
    t07_memory = "T07" on "memory";
    t07_sqlite = "T07" on "sqlite";
    t07_postgres = "T07" on "postgres";
    t07_redis = "T07" on "redis";
}

cases! { MORE_TESTS of MORE:
    h07_memory = "H07" on "memory";
    h07_sqlite = "H07" on "sqlite";
    h07_postgres = "H07" on "postgres";
    h07_redis = "H07" on "redis";
    h10_memory = "H10" on "memory";
    h10_sqlite = "H10" on "sqlite";
    h10_postgres = "H10" on "postgres";
    h10_redis = "H10" on "redis";
    h11_memory = "H11" on "memory";
    h11_sqlite = "H11" on "sqlite";
    h11_postgres = "H11" on "postgres";
    h11_redis = "H11" on "redis";
    f05_memory = "F05" on "memory";
    f05_sqlite = "F05" on "sqlite";
    f05_postgres = "F05" on "postgres";
    f05_redis = "F05" on "redis";
    f07_memory = "F07" on "memory";
    f07_sqlite = "F07" on "sqlite";
    f07_postgres = "F07" on "postgres";
    f07_redis = "F07" on "redis";
    f10_memory = "F10" on "memory";
    f10_sqlite = "F10" on "sqlite";
    f10_postgres = "F10" on "postgres";
    f10_redis = "F10" on "redis";
    f12_memory = "F12" on "memory";
    f12_sqlite = "F12" on "sqlite";
    f12_postgres = "F12" on "postgres";
    f12_redis = "F12" on "redis";
    c03_memory = "C03" on "memory";
    c03_sqlite = "C03" on "sqlite";
    c03_postgres = "C03" on "postgres";
    c03_redis = "C03" on "redis";
    c05_memory = "C05" on "memory";
    c05_sqlite = "C05" on "sqlite";
    c05_postgres = "C05" on "postgres";
    c05_redis = "C05" on "redis";
    d02_memory = "D02" on "memory";
    d02_sqlite = "D02" on "sqlite";
    d02_postgres = "D02" on "postgres";
    d02_redis = "D02" on "redis";
    d05_memory = "D05" on "memory";
    d05_sqlite = "D05" on "sqlite";
    d05_postgres = "D05" on "postgres";
    e03_memory = "E03" on "memory";
    e03_sqlite = "E03" on "sqlite";
    e03_postgres = "E03" on "postgres";
    e03_redis = "E03" on "redis";
    e06_memory = "E06" on "memory";
    e06_sqlite = "E06" on "sqlite";
    e06_postgres = "E06" on "postgres";
    e06_redis = "E06" on "redis";
    e04_memory = "E04" on "memory";
    e04_sqlite = "E04" on "sqlite";
    e04_postgres = "E04" on "postgres";
    e07_memory = "E07" on "memory";
    e07_sqlite = "E07" on "sqlite";
    e07_postgres = "E07" on "postgres";
    e05_memory = "E05" on "memory";
    e05_sqlite = "E05" on "sqlite";
    e05_postgres = "E05" on "postgres";
    p03_memory = "P03" on "memory";
    p03_sqlite = "P03" on "sqlite";
    p03_postgres = "P03" on "postgres";
    p03_redis = "P03" on "redis";
    p07_memory = "P07" on "memory";
    p07_sqlite = "P07" on "sqlite";
    p07_postgres = "P07" on "postgres";
    p07_redis = "P07" on "redis";
    p09_memory = "P09" on "memory";
    p09_sqlite = "P09" on "sqlite";
    p09_postgres = "P09" on "postgres";
    p09_redis = "P09" on "redis";
    x1b_sqlite = "X1b" on "sqlite";
    x1b_postgres = "X1b" on "postgres";
    x3_sqlite = "X3" on "sqlite";
    x3_postgres = "X3" on "postgres";
    x3_redis = "X3" on "redis";
    x5_memory = "X5" on "memory";
    x5_sqlite = "X5" on "sqlite";
    x5_postgres = "X5" on "postgres";
    x8_memory = "X8" on "memory";
    x8_sqlite = "X8" on "sqlite";
    x8_postgres = "X8" on "postgres";
    x9_memory = "X9" on "memory";
    x9_sqlite = "X9" on "sqlite";
    x9_postgres = "X9" on "postgres";
    s03_memory = "S03" on "memory";
    s03_sqlite = "S03" on "sqlite";
    s03_postgres = "S03" on "postgres";
    s03_redis = "S03" on "redis";
    s05_memory = "S05" on "memory";
    s05_sqlite = "S05" on "sqlite";
    s05_postgres = "S05" on "postgres";
    s05_redis = "S05" on "redis";
    s06_memory = "S06" on "memory";
    s06_sqlite = "S06" on "sqlite";
    s06_postgres = "S06" on "postgres";
    s06_redis = "S06" on "redis";
}
