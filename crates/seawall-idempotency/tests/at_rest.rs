//! What is kept of a response, and in what form (R44).

#[path = "trouble/service.rs"]
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use seawall_idempotency::{
    BoxFuture, Config, IdemKey, IdemTx, MemoryStore, Omission, Operator, RecordKey, RecordState,
    Rederive, Repeat, Retention, Seal, SealError, SqliteStore, Store, StoredBody,
};

use service::{Service, request};

const SECRET: &str = "token-4711";

async fn secret(_: Request<Body>) -> (StatusCode, [(&'static str, &'static str); 1], &'static str) {
    (StatusCode::CREATED, [("location", "/tokens/1")], SECRET)
}

/// A cipher for tests, and for nothing else: a keystream and a tag, both of the record's name.
#[derive(Debug, Default)]
struct TestCipher {
    refuses: AtomicBool,
}

impl Seal for TestCipher {
    fn seal(&self, record: RecordKey, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(SealError::new("the key service is down"));
        }
        let mut sealed: Vec<u8> = keystream(record).zip(plain).map(|(a, b)| a ^ b).collect();
        sealed.extend_from_slice(&tag(record, &sealed));
        Ok(sealed)
    }

    fn open(&self, record: RecordKey, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        match sealed.split_last_chunk::<4>() {
            Some((sealed, tagged)) if *tagged == tag(record, sealed) => {
                Ok(keystream(record).zip(sealed).map(|(a, b)| a ^ b).collect())
            }
            _ => Err(SealError::new("the tag does not match")),
        }
    }
}

fn keystream(record: RecordKey) -> impl Iterator<Item = u8> {
    let bytes = *record.as_bytes();
    (0_usize..).map(move |index| bytes[index % 32] ^ 0xa5 ^ (index / 32) as u8)
}

fn tag(record: RecordKey, sealed: &[u8]) -> [u8; 4] {
    crc32fast::hash(&[record.as_bytes(), sealed].concat()).to_be_bytes()
}

/// The business data: every key has one row.
#[derive(Debug, Default)]
struct Rows {
    deleted: AtomicBool,
    hangs: AtomicBool,
}

impl Rederive for Rows {
    fn body<'a>(&'a self, repeat: Repeat<'a>) -> BoxFuture<'a, Option<Bytes>> {
        assert_eq!(repeat.request.uri.path(), "/orders");
        assert_eq!(repeat.body, "{}");
        assert_eq!(repeat.outcome.status, 201);
        Box::pin(async move {
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            (!self.deleted.load(Ordering::SeqCst)).then(|| Bytes::from(repeat.key.step("row")))
        })
    }
}

async fn derived(
    request: Request<Body>,
) -> (StatusCode, [(&'static str, &'static str); 1], String) {
    let key = *request.extensions().get::<IdemKey>().unwrap();
    let headers = [("content-type", "text/x-row")];
    (StatusCode::CREATED, headers, key.step("row"))
}

#[tokio::test]
async fn r44_a_sealed_response_is_readable_by_its_layer_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let config = Config {
        seal: Some(Arc::new(TestCipher::default())),
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, secret);
    let first = service.post("key").await;
    assert_eq!(
        (first.status, &*first.body),
        (StatusCode::CREATED, SECRET.as_bytes())
    );
    let repeat = service.post("key").await;
    assert!(repeat.replayed());
    assert_eq!((repeat.status, &repeat.body), (first.status, &first.body));
    assert_eq!(repeat.headers["location"], "/tokens/1");

    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(store.pool())
        .await
        .unwrap();
    let file = std::fs::read(&path).unwrap();
    for text in [SECRET, "/tokens/1"] {
        let found = file.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!found, "{text} is in the file");
    }

    // Another layer on the same records, without the seal: loud, and never a second run.
    let blind = Service::new(store, Config::default(), secret);
    let refused = blind.post("key").await;
    assert_eq!(
        (refused.status.as_u16(), refused.problem().as_str()),
        (500, "record-unreadable")
    );
    assert_eq!((service.runs(), blind.runs()), (1, 0));
}

#[tokio::test]
async fn r44_a_sealed_response_of_another_record_does_not_open() {
    let store = MemoryStore::new().unwrap();
    let config = Config {
        seal: Some(Arc::new(TestCipher::default())),
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, secret);
    service.post("a").await;
    service.post("b").await;
    let name = |key: &str| {
        RecordKey::new(
            store.secret(),
            &seawall_idempotency::Owner::new("alice"),
            key,
        )
    };
    let sealed = match store.record(name("a")).await.unwrap().unwrap().state {
        RecordState::Done { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    };
    assert!(sealed.headers.is_empty() && matches!(sealed.body, StoredBody::Sealed(_)));

    let cipher = TestCipher::default();
    let StoredBody::Sealed(bytes) = &sealed.body else {
        unreachable!()
    };
    assert!(cipher.open(name("a"), bytes).is_ok());
    assert!(cipher.open(name("b"), bytes).is_err());
}

#[tokio::test]
async fn r44_what_cannot_be_sealed_is_answered_and_not_kept() {
    let store = MemoryStore::new().unwrap();
    let cipher = Arc::new(TestCipher::default());
    cipher.refuses.store(true, Ordering::SeqCst);
    let config = Config {
        seal: Some(cipher),
        ..Config::default()
    };
    let service = Service::new(store, config, secret);
    assert_eq!(service.post("key").await.body, SECRET);
    let repeat = service.post("key").await;
    assert_eq!(repeat.problem(), "response-not-stored");
    assert!(!repeat.headers.contains_key("location"));
    assert_eq!(service.runs(), 1);
}

async fn fails(_: Request<Body>) -> StatusCode {
    panic!("a handler with effects elsewhere")
}

/// What an operator writes is not sealed, and is replayed by a layer that seals.
#[tokio::test(start_paused = true)]
async fn r44_an_operators_answer_is_replayed_by_a_layer_with_a_seal() {
    let store = MemoryStore::new().unwrap();
    let config = Config {
        seal: Some(Arc::new(TestCipher::default())),
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, fails);
    assert_eq!(service.post("key").await.problem(), "handler-failed");
    let operator = Operator::new(store);
    let record = operator.unknown(10).await.unwrap().remove(0);
    let retention = Retention::new(Duration::from_secs(60));
    let body = serde_json::json!({"id": 7});
    let settled = operator
        .resolve_done(
            record.key,
            record.fence,
            StatusCode::CREATED,
            &body,
            retention,
        )
        .await;
    assert_eq!(settled.unwrap(), seawall_idempotency::Fenced::Held);
    let repeat = service.post("key").await;
    assert_eq!(
        (repeat.status.as_u16(), &*repeat.body),
        (201, &b"{\"id\":7}"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn r44_a_body_that_is_not_kept_is_made_anew() {
    let store = MemoryStore::new().unwrap();
    let rows = Arc::new(Rows::default());
    let config = Config {
        keep_body: false,
        rederive: Some(Arc::clone(&rows) as Arc<dyn Rederive>),
        ..Config::default()
    };
    let service = Service::new(store.clone(), config, derived);
    let first = service.post("key").await;
    let repeat = service.post("key").await;
    assert!(repeat.replayed() && !first.replayed());
    assert_eq!((repeat.status, &repeat.body), (first.status, &first.body));
    assert_eq!(repeat.headers["content-type"], "text/x-row");
    let name = RecordKey::new(
        store.secret(),
        &seawall_idempotency::Owner::new("alice"),
        "key",
    );
    match store.record(name).await.unwrap().unwrap().state {
        RecordState::Done { outcome, .. } => {
            assert_eq!(outcome.body, StoredBody::Omitted(Omission::ByPolicy));
        }
        other => panic!("{other:?}"),
    }

    // A body that cannot be had any more, or not in time, is said to be so. Nothing runs again.
    for trouble in [&rows.deleted, &rows.hangs] {
        trouble.store(true, Ordering::SeqCst);
        let refused = service.post("key").await;
        assert_eq!(
            (refused.status.as_u16(), refused.problem().as_str()),
            (409, "response-not-stored")
        );
        trouble.store(false, Ordering::SeqCst);
    }
    assert_eq!(service.post("key").await.body, first.body);
    assert_eq!(service.runs(), 1);
}

/// An owner that was overtaken answers with the winner's outcome, body and all.
#[tokio::test]
async fn r44_an_overtaken_owner_makes_the_winners_body_anew() {
    let store = MemoryStore::new().unwrap();
    let config = Config {
        keep_body: false,
        rederive: Some(Arc::new(Rows::default())),
        lease: Duration::from_millis(100),
        on_unknown: seawall_idempotency::OnUnknown::Reexecute,
        ..Config::default()
    };
    let winner = Arc::new(Service::new(store.clone(), config.clone(), derived));
    let other = Arc::clone(&winner);
    let overtaken = Service::new(store.clone(), config, move |request: Request<Body>| {
        let other = Arc::clone(&other);
        let store = store.clone();
        async move {
            let key = request.extensions().get::<IdemKey>().unwrap().record();
            // As after a pause of the whole process: the record is another's, then done.
            let record = store.record(key).await.unwrap().unwrap();
            let released = store.release(key, record.fence).await.unwrap();
            assert_eq!(released, seawall_idempotency::Fenced::Held);
            assert_eq!(other.post("key").await.status, 201);
            let mut transaction =
                IdemTx::<seawall_idempotency::Memory>::take(request.extensions()).unwrap();
            assert!(transaction.begin().await.is_err());
            StatusCode::CREATED
        }
    });
    let answer = overtaken.send(request("key")).await;
    assert!(answer.replayed(), "{answer:?}");
    assert_eq!(answer.body, winner.post("key").await.body);
    assert_eq!((overtaken.runs(), winner.runs()), (1, 1));
}
