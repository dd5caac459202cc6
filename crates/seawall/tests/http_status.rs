//! What a status says of its attempt: C2, C4, C8.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use seawall::http::status::{RequestFacts, Statuses, Verdict, classify};
use seawall_engine::{Outcome, Phase};

const PLAIN: RequestFacts = RequestFacts {
    keyed: false,
    hops: 0,
};
const KEYED: RequestFacts = RequestFacts {
    keyed: true,
    hops: 0,
};
const UNPROCESSED: Outcome = Outcome::Transient(Phase::Unprocessed);
const AMBIGUOUS: Outcome = Outcome::Transient(Phase::Ambiguous);

fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        })
        .collect()
}

fn verdict(
    code: u16,
    lines: &[(&'static str, &'static str)],
    request: RequestFacts,
    overrides: &Statuses,
) -> Verdict {
    let status = StatusCode::from_u16(code).unwrap();
    classify(status, &headers(lines), request, overrides)
}

fn outcome(code: u16) -> Outcome {
    verdict(code, &[], PLAIN, &Statuses::default()).outcome
}

#[test]
fn c2_1xx_to_3xx_is_success() {
    for code in 100..400 {
        assert_eq!(outcome(code), Outcome::Success, "{code}");
    }
}

#[test]
fn c2_429_is_throttled_unprocessed() {
    assert_eq!(outcome(429), Outcome::Throttled(Phase::Unprocessed));
}

#[test]
fn c2_421_is_unprocessed_and_wants_a_new_connection() {
    let verdict = verdict(421, &[], PLAIN, &Statuses::default());
    assert_eq!(verdict.outcome, UNPROCESSED);
    assert!(verdict.new_connection);
}

#[test]
fn c2_425_is_unprocessed_on_any_connection() {
    let verdict = verdict(425, &[], PLAIN, &Statuses::default());
    assert_eq!(verdict.outcome, UNPROCESSED);
    assert!(!verdict.new_connection);
}

#[test]
fn c2_statuses_that_may_pass_are_ambiguous() {
    for code in [
        408, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 598, 599,
    ] {
        assert_eq!(outcome(code), AMBIGUOUS, "{code}");
    }
}

#[test]
fn c2_statuses_without_a_row_count_as_a_server_error() {
    for code in [509, 512, 519, 525, 530, 597, 600, 999] {
        assert_eq!(outcome(code), AMBIGUOUS, "{code}");
    }
}

#[test]
fn c2_409_with_retry_after_waits_when_keyed() {
    let answer = |lines, request| verdict(409, lines, request, &Statuses::default()).outcome;
    let retry_after: &[_] = &[("retry-after", "1")];
    assert_eq!(answer(retry_after, KEYED), AMBIGUOUS);
    assert_eq!(answer(retry_after, PLAIN), Outcome::Permanent);
    assert_eq!(answer(&[], KEYED), Outcome::Permanent);
}

#[test]
fn c2_replayed_5xx_is_permanent() {
    let answer = |code, value, overrides: &Statuses| {
        verdict(code, &[("idempotent-replayed", value)], KEYED, overrides).outcome
    };
    let none = Statuses::default();
    for code in [500, 503, 529, 599] {
        assert_eq!(answer(code, "true", &none), Outcome::Permanent, "{code}");
        assert_eq!(answer(code, " TRUE", &none), Outcome::Permanent, "{code}");
        assert_eq!(answer(code, "false", &none), AMBIGUOUS, "{code}");
    }
    // A list of statuses does not undo it: the same key brings the same answer.
    let listed = Statuses {
        transient: vec![503],
        ..none.clone()
    };
    assert_eq!(answer(503, "true", &listed), Outcome::Permanent);
    // It says nothing of other classes.
    assert_eq!(answer(200, "true", &none), Outcome::Success);
    assert_eq!(
        answer(429, "true", &none),
        Outcome::Throttled(Phase::Unprocessed)
    );
}

#[test]
fn c2_other_4xx_and_unable_5xx_are_permanent() {
    for code in (400..500).filter(|code| ![408, 421, 425, 429].contains(code)) {
        assert_eq!(outcome(code), Outcome::Permanent, "{code}");
    }
    for code in [501, 505, 506, 507, 508, 510, 511] {
        assert_eq!(outcome(code), Outcome::Permanent, "{code}");
    }
}

#[test]
fn k3_422_ends_a_keyed_call() {
    let verdict = verdict(422, &[("retry-after", "1")], KEYED, &Statuses::default());
    assert_eq!(verdict.outcome, Outcome::Permanent);
}

#[test]
fn c4_a_followed_redirect_makes_every_phase_ambiguous() {
    let after_redirect = |code| {
        let request = RequestFacts {
            hops: 1,
            ..RequestFacts::default()
        };
        verdict(code, &[], request, &Statuses::default()).outcome
    };
    assert_eq!(after_redirect(429), Outcome::Throttled(Phase::Ambiguous));
    assert_eq!(after_redirect(421), AMBIGUOUS);
    assert_eq!(after_redirect(425), AMBIGUOUS);
    assert_eq!(after_redirect(503), AMBIGUOUS);
    assert_eq!(after_redirect(200), Outcome::Success);
    assert_eq!(after_redirect(404), Outcome::Permanent);
}

#[test]
fn c8_listed_statuses_keep_the_phase_of_the_table() {
    let overrides = Statuses {
        transient: vec![429, 404, 202, 409],
        throttled: vec![503, 425, 430],
        permanent: vec![500, 421],
    };
    let listed = |code| verdict(code, &[], PLAIN, &overrides).outcome;
    assert_eq!(listed(429), UNPROCESSED);
    assert_eq!(listed(404), AMBIGUOUS);
    assert_eq!(listed(202), AMBIGUOUS);
    assert_eq!(listed(409), AMBIGUOUS);
    assert_eq!(listed(503), Outcome::Throttled(Phase::Ambiguous));
    assert_eq!(listed(425), Outcome::Throttled(Phase::Unprocessed));
    assert_eq!(listed(430), Outcome::Throttled(Phase::Ambiguous));
    assert_eq!(listed(500), Outcome::Permanent);
    assert_eq!(listed(421), Outcome::Permanent);
    assert_eq!(listed(502), AMBIGUOUS);
}

#[test]
fn c8_the_most_careful_list_wins_and_redirects_count_after_it() {
    let overrides = Statuses {
        transient: vec![429, 500],
        throttled: vec![500],
        permanent: vec![429],
    };
    let listed = |code, request| verdict(code, &[], request, &overrides).outcome;
    assert_eq!(listed(429, PLAIN), Outcome::Permanent);
    assert_eq!(listed(500, PLAIN), Outcome::Throttled(Phase::Ambiguous));

    let early = Statuses {
        transient: vec![429],
        ..Statuses::default()
    };
    let hopped = RequestFacts {
        keyed: true,
        hops: 2,
    };
    assert_eq!(verdict(429, &[], hopped, &early).outcome, AMBIGUOUS);
}

#[test]
fn s2_should_retry_true_mends_a_permanent_status_where_the_gate_allows() {
    let bad_request = verdict(400, &[], PLAIN, &Statuses::default());
    let told = |word, repeatable| bad_request.with_server_word(word, repeatable).outcome;
    assert_eq!(told(Some(true), true), AMBIGUOUS);
    assert_eq!(told(Some(true), false), Outcome::Permanent);
    assert_eq!(told(Some(false), true), Outcome::Permanent);
    assert_eq!(told(None, true), Outcome::Permanent);

    let busy = verdict(429, &[], PLAIN, &Statuses::default());
    for word in [None, Some(true), Some(false)] {
        assert_eq!(busy.with_server_word(word, true), busy);
    }
}
