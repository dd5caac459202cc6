//! S: what the server asks for.

use std::cell::Cell;
use std::time::Duration;

use seawall_engine::{
    Answer, Backoff, Ending, KeyGuards, Kind, Over, Policy, PolicyBuilder, Question, RetryAfter,
    Share, Time, Unguarded, WaitReason,
};

use crate::scripted::Scripted;
use crate::virtual_driver::*;

fn backing_off(wait: Duration) -> PolicyBuilder {
    bare()
        .deadline(None)
        .max_attempts(2)
        .backoff(Backoff::fixed(wait).cap(wait))
}

fn asking(wait: Duration) -> impl FnMut(Send) -> Reply {
    move |send| match send.number {
        1 => status_asking(0, 429, wait),
        _ => status(0, 200),
    }
}

#[test]
fn s3_the_wish_is_never_undercut_and_spread_by_at_most_a_quarter_or_5_s() {
    let policy = backing_off(ms(1)).build().unwrap();
    for (asked, most) in [(ms(100), ms(125)), (secs(4), secs(5)), (secs(60), secs(65))] {
        let log = run(&policy, &Unguarded, &[Caller::default(); 500], |send| {
            asking(asked)(send)
        });
        let second = log.sends.iter().filter(|send| send.number == 2);
        let waits: Vec<_> = second.map(|send| send.at - Time::ZERO).collect();
        let (least, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(asked <= *least && *longest <= most, "{least:?} {longest:?}");
        assert!(
            *longest - *least > (most - asked) * 9 / 10,
            "spread over all of it"
        );
    }
}

#[test]
fn s3_a_longer_backoff_stands() {
    let policy = backing_off(secs(3)).build().unwrap();
    let log = run_one(&policy, &Unguarded, asking(secs(1)));
    assert_eq!(log.sent_ms(), [0, 3000]);
    let second = log.over[0].report.attempts().nth(1).unwrap().clone();
    assert_eq!(
        (second.wait, second.wait_reason),
        (secs(3), Some(WaitReason::Backoff))
    );
}

#[test]
fn s3_a_wish_that_is_not_honoured_changes_nothing() {
    let retry_after = RetryAfter {
        honor: false,
        ..RetryAfter::default()
    };
    let policy = backing_off(ms(7)).retry_after(retry_after).build().unwrap();
    assert_eq!(
        run_one(&policy, &Unguarded, asking(secs(9999))).sent_ms(),
        [0, 7]
    );
}

/// The jitter is cut to what the deadline leaves; the wish itself fits.
#[test]
fn s3_the_jitter_gives_way_to_the_deadline() {
    let policy = bare().deadline(ms(1010)).build().unwrap();
    let log = run(&policy, &Unguarded, &[Caller::default(); 100], |send| {
        asking(secs(1))(send)
    });
    assert!(log.sends.iter().all(|send| send.at < at_ms(1010)));
    assert!(
        log.over
            .iter()
            .all(|over| over.finish.ending == Ending::Success)
    );
}

#[test]
fn s2_a_server_that_forbids_is_obeyed() {
    let log = run_one(&bare().build().unwrap(), &Unguarded, |_| {
        let (after, mut settled) = status(3, 503)?;
        settled.hint.forbids = true;
        Some((after, settled))
    });
    assert_eq!((log.sends.len(), log.ending(0)), (1, Ending::ServerForbids));
}

#[test]
fn s4_a_wish_that_does_not_fit_the_deadline_ends_the_call() {
    let policy = bare().deadline(secs(10)).build().unwrap();
    let log = run_one(&policy, &Unguarded, |_| status_asking(4000, 503, secs(6)));
    let expected = Ending::RetryAfterTooLong {
        asked: secs(6),
        limit: secs(6),
    };
    assert_eq!((log.ended_ms(0), log.ending(0)), (4000, expected));
    assert_eq!(log.over[0].finish.result, Some(1));
}

#[test]
fn s4_capped_waits_exactly_the_limit_unless_the_backoff_is_longer() {
    let retry_after = RetryAfter {
        max: secs(2),
        over: Over::Cap,
        ..RetryAfter::default()
    };
    for (backoff, expected) in [(ms(1), 2000), (secs(3), 3000)] {
        let policy = backing_off(backoff)
            .retry_after(retry_after.clone())
            .build()
            .unwrap();
        assert_eq!(
            run_one(&policy, &Unguarded, asking(secs(100))).sent_ms(),
            [0, expected]
        );
    }
}

fn sharing(share: Share) -> Policy {
    let retry_after = RetryAfter {
        share,
        ..RetryAfter::default()
    };
    backing_off(ms(1)).retry_after(retry_after).build().unwrap()
}

/// Two calls with one key: the first is told to wait 5 s, the second fails without a wish.
fn second_call(share: Share) -> Vec<u64> {
    let policy = sharing(share);
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let callers = [
        Caller::default(),
        Caller {
            at: at_ms(100),
            ..Caller::default()
        },
    ];
    let log = run(&policy, &guards, &callers, |send| {
        match (send.call, send.number) {
            (0, 1) => status_asking(0, 429, secs(5)),
            (_, 1) => broken(0, AMBIGUOUS),
            _ => status(0, 200),
        }
    });
    let second = log.sends.iter().filter(|send| send.call == 1);
    second
        .map(|send| (send.at - Time::ZERO).as_millis() as u64)
        .collect()
}

#[test]
fn s5_share_says_which_sends_of_other_calls_wait() {
    assert_eq!(second_call(Share::Off), [100, 101]);
    let retries = second_call(Share::Retries);
    assert!(
        retries[0] == 100 && (5000..6300).contains(&retries[1]),
        "{retries:?}"
    );
    let all = second_call(Share::All);
    assert!((5000..6300).contains(&all[0]), "{all:?}");
}

#[test]
fn s5_no_hedge_starts_before_the_cooldown_ends() {
    let hedge = seawall_engine::HedgeSettings::after(ms(100));
    let policy = bare().hedge(hedge).build().unwrap();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    seawall_engine::Guard::tell(
        &guards,
        seawall_engine::Notice::CoolDown(at_ms(700)),
        Time::ZERO,
    );
    let log = run_one(&policy, &guards, |_| status(900, 200));
    assert_eq!(log.sent_ms(), [0, 700]);
}

#[test]
fn s5_all_ends_a_call_that_the_cooldown_does_not_fit() {
    let retry_after = RetryAfter {
        share: Share::All,
        ..RetryAfter::default()
    };
    let policy = bare()
        .deadline(secs(3))
        .retry_after(retry_after)
        .build()
        .unwrap();
    let guard = Scripted::new(|question, _| {
        (question == Question::Cooldown).then_some(Answer::Until(at_ms(4000)))
    });
    let log = run_one(&policy, &guard, |_| None);
    assert_eq!(
        (log.sends.len(), log.ending(0)),
        (0, Ending::CoolingDown { until: at_ms(4000) })
    );
    assert_eq!(log.over[0].report.retry_in(), Some(secs(4)));
}

/// A cooldown that begins while a retry waits for the limiter holds it too, and the turn is given
/// back.
#[test]
fn s5_a_cooldown_that_begins_in_the_queue_holds_the_retry() {
    let policy = sharing(Share::Retries);
    let told = Cell::new(false);
    let guard = Scripted::new(|question, now| match question {
        // The first turn of the retry is for 500 ms; meanwhile another call is told to wait.
        Question::Limiter(_) if now > Time::ZERO && !told.replace(true) => {
            Some(Answer::Until(at_ms(500)))
        }
        Question::Cooldown if now >= at_ms(500) => Some(Answer::Until(at_ms(2000))),
        _ => None,
    });
    let log = run_one(&policy, &guard, |send| {
        status(0, if send.number == 1 { 503 } else { 200 })
    });
    assert!(
        (2000..2400).contains(&log.sent_ms()[1]),
        "{:?}",
        log.sent_ms()
    );
    let back = seawall_engine::Notice::ReservationBack(at_ms(500));
    assert!(guard.told.borrow().contains(&back));
    assert_eq!(log.sends[1].kind, Kind::Retry);
}

/// A guard that names a moment already past does not hold anything up.
#[test]
fn s5_a_cooldown_that_is_over_is_none() {
    let guard = Scripted::new(|question, now| {
        (question == Question::Cooldown).then_some(Answer::Until(now))
    });
    let log = run_one(&sharing(Share::All), &guard, |_| status(0, 503));
    assert_eq!(log.sent_ms(), [0, 1]);
}
