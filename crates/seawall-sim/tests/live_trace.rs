//! Production is simulation: real HTTP calls over real sockets, recorded, written to a file, and
//! run again by the simulator's driver, take the same decisions, byte for byte.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall::{
    Action, Backoff, BreakerSettings, BudgetKind, BudgetSettings, BulkheadSettings, Call, Client,
    Ending, Error, Fact, HedgeSettings, Jitter, Kind, LimiterSettings, Outcome, Phase, Policy,
    PolicyBuilder, RetryAfter, Settled, ThrottleSettings, Time, Trace, Unguarded, blocking,
};
use seawall_sim::replay;
use seawall_testserver::{RefusedPort, Reply, Request, Script, Server};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Quick, and with random waits: the same draws have to be made again.
fn policy() -> PolicyBuilder {
    Policy::builder()
        .max_attempts(4)
        .deadline(Duration::from_secs(20))
        .backoff(
            Backoff::exponential(ms(10))
                .cap(ms(80))
                .jitter(Jitter::Full),
        )
}

/// A server that misbehaves, and a client whose calls are recorded.
struct Production {
    name: &'static str,
    server: Server,
    client: Client,
    traces: Arc<Mutex<Vec<Trace>>>,
}

impl Production {
    fn new(name: &'static str, policy: PolicyBuilder, script: impl Script) -> Self {
        let traces = Arc::<Mutex<Vec<Trace>>>::default();
        let kept = Arc::clone(&traces);
        let client = Client::builder()
            .policy(policy.build().unwrap())
            .record(move |trace| kept.lock().unwrap().push(trace))
            .build();
        Self {
            name,
            server: Server::start(script),
            client: client.unwrap(),
            traces,
        }
    }

    /// A call that collects its answer, whatever comes of it.
    async fn get(&self) -> Result<(), Error> {
        let call = self.client.get(self.server.url("/")).send_bytes();
        call.await.map(drop)
    }

    /// Writes the calls down, reads them, runs them again in the simulator, and compares. Gives
    /// them back as they were.
    fn simulated(self) -> Vec<Trace> {
        let traces = std::mem::take(&mut *self.traces.lock().unwrap());
        assert!(!traces.is_empty(), "{}: nothing was recorded", self.name);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live_trace");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(self.name).with_extension("json");
        std::fs::write(&path, serde_json::to_vec_pretty(&traces).unwrap()).unwrap();
        let read: Vec<Trace> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let again: Vec<Trace> = read.iter().map(replay).collect();
        for (recorded, again) in traces.iter().zip(&again) {
            assert_same(self.name, recorded, again);
        }
        let bytes = serde_json::to_vec_pretty(&again).unwrap();
        assert!(bytes == std::fs::read(&path).unwrap(), "{}", self.name);
        traces
    }
}

/// Line by line, so that a difference can be read.
fn assert_same(name: &str, recorded: &Trace, again: &Trace) {
    let recorded = serde_json::to_string_pretty(recorded).unwrap();
    let again = serde_json::to_string_pretty(again).unwrap();
    if let Some((was, is)) = recorded.lines().zip(again.lines()).find(|(a, b)| a != b) {
        panic!("{name}: {was} in production, {is} in the simulator");
    }
    assert_eq!(recorded.len(), again.len(), "{name}");
}

fn endings(traces: &[Trace]) -> Vec<Option<Ending>> {
    let ending = |trace: &Trace| trace.finish().map(|finish| finish.ending);
    traces.iter().map(ending).collect()
}

fn starts(trace: &Trace) -> Vec<Kind> {
    let actions = trace.steps.iter().flat_map(|step| &step.actions);
    let kinds = actions.filter_map(|action| match action {
        Action::Start(start) => Some(start.kind),
        _ => None,
    });
    kinds.collect()
}

fn has(trace: &Trace, fact: impl Fn(&Fact) -> bool) -> bool {
    trace.steps.iter().any(|step| fact(&step.fact))
}

#[tokio::test]
async fn mixed_answers_and_resets() {
    let production = Production::new(
        "mixed",
        policy().budget(None).breaker(None),
        |request: &Request| match request.index % 7 {
            0 | 4 => Reply::ok("fine"),
            1 => Reply::status(503).body("busy"),
            2 => Reply::nothing().then_reset(),
            3 => Reply::truncated(100, 40),
            5 => Reply::status(404),
            _ => Reply::status(500),
        },
    );
    for _ in 0..30 {
        let _ = production.get().await;
    }
    let traces = production.simulated();
    assert_eq!(traces.len(), 30);
    assert!(traces.iter().any(|trace| starts(trace).len() > 2));
    assert!(endings(&traces).contains(&Some(Ending::Permanent)));
}

#[tokio::test]
async fn retry_after_with_a_response_in_hand() {
    let policy = policy().retry_after(RetryAfter {
        max: Duration::from_secs(2),
        ..RetryAfter::default()
    });
    let production = Production::new("retry-after", policy, |request: &Request| {
        match request.index % 4 {
            0 => Reply::status(503)
                .header("retry-after", "0")
                .body(vec![b'x'; 30_000]),
            1 => Reply::status(429)
                .header("retry-after-ms", "150")
                .body("slow down"),
            2 => Reply::ok("fine"),
            _ => Reply::status(503).header("retry-after", "3600"),
        }
    });
    // Here the response is held, and drained while the call waits.
    let url = production.server.url("/");
    for _ in 0..4 {
        let response = production.client.get(&url).send().await;
        drop(response);
    }
    let traces = production.simulated();
    assert!(has(&traces[0], |fact| *fact == Fact::Drained));
    let too_long =
        |ending: &Option<Ending>| matches!(ending, Some(Ending::RetryAfterTooLong { .. }));
    assert!(endings(&traces).iter().any(too_long));
}

#[tokio::test]
async fn slow_answers_and_what_bounds_them() {
    let policy = policy()
        .attempt_timeout(ms(80))
        .deadline(ms(400))
        .max_attempts(9);
    let production = Production::new("slow", policy, |request: &Request| {
        match request.index % 4 {
            0 => Reply::hang(),
            // Slow, but never silent for long.
            1 => (0..6).fold(Reply::status(200).chunked(), |reply, _| {
                reply.body("piece").pause(ms(40))
            }),
            2 => Reply::ok("x").after(ms(300)),
            _ => Reply::status(200)
                .declared_length(9)
                .body("then silence")
                .then_hang(),
        }
    });
    for _ in 0..6 {
        let _ = production.get().await;
    }
    let traces = production.simulated();
    let moved = |trace: &Trace| has(trace, |fact| matches!(fact, Fact::Progressed { .. }));
    assert!(traces.iter().any(moved));
    assert!(traces.iter().any(|trace| starts(trace).len() > 1));
}

#[tokio::test]
async fn hedges_that_win_and_hedges_that_lose() {
    let hedge = HedgeSettings {
        max: 2,
        ..HedgeSettings::after(ms(20))
    };
    let production = Production::new(
        "hedges",
        policy().budget(None).hedge(hedge),
        |request: &Request| match request.index % 5 {
            0 => Reply::ok("slow").after(ms(90)),
            1 => Reply::status(503).after(ms(5)),
            2 => Reply::ok("quick"),
            3 => Reply::ok("not so quick").after(ms(30)),
            _ => Reply::nothing().after(ms(40)).then_reset(),
        },
    );
    for _ in 0..20 {
        let _ = production.get().await;
    }
    let traces = production.simulated();
    let hedged = traces
        .iter()
        .filter(|trace| starts(trace).contains(&Kind::Hedge));
    assert!(hedged.count() >= 5);
}

#[tokio::test]
async fn posts_with_and_without_a_key() {
    let script = |request: &Request| match request.index % 3 {
        0 => Reply::nothing().acts().then_reset(),
        1 => Reply::status(503).acts(),
        _ => Reply::status(201).acts(),
    };
    let production = Production::new("posts", policy(), script);
    let url = production.server.url("/orders");
    for n in 0..12 {
        let call = production.client.post(&url).json(&n);
        let _ = match n % 3 {
            0 => call.send().await,
            1 => call.idempotency_key(n).send().await,
            _ => call.idempotent(true).send().await,
        };
    }
    // None of it reaches a server: that is safe to repeat without a key.
    let nobody = RefusedPort::new().unwrap().url("/");
    let error = production.client.post(nobody).send().await.unwrap_err();
    assert_eq!(error.report().attempts_sent(), 4);
    let traces = production.simulated();
    assert!(endings(&traces).contains(&Some(Ending::NotRepeatable)));
    let keyed = |trace: &&Trace| trace.request.idempotent && starts(trace).len() > 1;
    assert!(traces.iter().filter(keyed).count() >= 4);
}

#[tokio::test]
async fn a_breaker_that_opens_and_probes() {
    let breaker = BreakerSettings {
        consecutive: Some(3),
        open_for: ms(30),
        open_factor: 1.0,
        probes: 1,
        ..BreakerSettings::default()
    };
    let production =
        Production::new(
            "breaker",
            policy().breaker(breaker),
            |request: &Request| match request.index {
                0..6 => Reply::status(503),
                _ => Reply::ok("back"),
            },
        );
    for _ in 0..20 {
        let _ = production.get().await;
        tokio::time::sleep(ms(15)).await;
    }
    let endings = endings(&production.simulated());
    let open = |ending: &&Option<Ending>| matches!(ending, Some(Ending::CircuitOpen { .. }));
    assert!(endings.iter().filter(open).count() >= 2);
    assert!(endings.contains(&Some(Ending::Success)));
}

#[tokio::test]
async fn a_throttle_and_a_budget_that_refuse() {
    let budget = BudgetSettings::from(BudgetKind::Ratio {
        ratio: 0.1,
        min_per_second: 0.0,
        burst: Some(3),
        initial: Some(0),
    });
    let policy = policy()
        .breaker(None)
        .budget(budget)
        .throttle(ThrottleSettings::default());
    let production = Production::new("throttle", policy, Reply::status(503));
    for _ in 0..60 {
        let _ = production.get().await;
    }
    let endings = endings(&production.simulated());
    for ending in [Ending::ThrottledLocally, Ending::BudgetExhausted] {
        assert!(endings.contains(&Some(ending)), "{ending} in {endings:?}");
    }
}

/// Many at once, each with the guards' answers of its own moment; some are given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beside_each_other_that_queue_and_are_dropped() {
    let policy = policy()
        .attempt_timeout(ms(500))
        .hedge(HedgeSettings::at_quantile(0.5))
        .limiter(LimiterSettings {
            rate: 400.0,
            burst: 20,
            wait: true,
        })
        .bulkhead(BulkheadSettings {
            max_concurrent: 5,
            max_queued: 200,
        });
    let production = Production::new("beside", policy, |request: &Request| {
        match request.index % 6 {
            0 => Reply::ok("x").after(ms(25)),
            1 => Reply::status(503).body("busy"),
            2 => Reply::nothing().then_reset(),
            _ => Reply::ok("x").after(ms(2)),
        }
    });
    let calls: Vec<_> = (0..120)
        .map(|n| {
            let call = production.client.get(production.server.url("/"));
            let patience = if n % 10 == 0 { ms(12) } else { ms(10_000) };
            tokio::spawn(tokio::time::timeout(patience, call.send_bytes()))
        })
        .collect();
    for call in calls {
        let _ = call.await.unwrap();
    }
    let traces = production.simulated();
    assert_eq!(traces.len(), 120);
    assert!(
        traces
            .iter()
            .any(|trace| has(trace, |fact| *fact == Fact::Admitted))
    );
    assert!(
        traces
            .iter()
            .any(|trace| has(trace, |fact| *fact == Fact::Dropped))
    );
}

#[test]
fn calls_of_the_blocking_client() {
    let production = Production::new("blocking", policy(), |request: &Request| {
        match request.index % 3 {
            0 => Reply::status(503).header("retry-after-ms", "20"),
            1 => Reply::nothing().then_reset(),
            _ => Reply::ok("x"),
        }
    });
    let client = blocking::Client::from(production.client.clone());
    for _ in 0..5 {
        assert_eq!(
            client.get(production.server.url("/")).send_text().unwrap(),
            "x"
        );
    }
    let traces = production.simulated();
    assert!(traces.iter().all(|trace| starts(trace).len() == 3));
}

/// Calls that were recorded when this test was written: whatever decides otherwise since then, or
/// reads their file otherwise, shows here.
#[test]
fn calls_recorded_long_ago() {
    let text = include_str!("recorded/calls.jsonl");
    assert_eq!(text.lines().count(), 10);
    for line in text.lines() {
        let read: Trace = serde_json::from_str(line).unwrap();
        assert_same(line, &read, &replay(&read));
    }
}

/// Two cores may read two times.
#[test]
fn a_clock_that_goes_back_changes_no_order() {
    let (policy, at) = (policy().build().unwrap(), Time::from_nanos);
    let mut call = Call::new(&policy, Default::default(), 7, at(1_000));
    let mut trace = Trace::new(&policy, Default::default(), 7, at(1_000));
    for now in [1_000, 1_001] {
        trace.poll(&mut call, &Unguarded, at(now));
    }
    let settled = Settled::new(Outcome::Transient(Phase::Ambiguous));
    let ended = Fact::Ended { number: 1, settled };
    trace.fact(&mut call, &Unguarded, at(900), ended);
    trace.poll(&mut call, &Unguarded, at(901));
    trace.fact(&mut call, &Unguarded, at(899), Fact::Cancelled);
    trace.poll(&mut call, &Unguarded, at(899));
    assert_eq!(endings(&[trace.clone()]), [Some(Ending::Cancelled)]);
    assert_same("back", &trace, &replay(&trace));
}

/// Times of anybody's making, the ends of time among them: the order is still that of the steps.
#[test]
fn a_trace_with_times_that_cannot_be() {
    let times = [0, u64::MAX, 1, u64::MAX - 1, 1 << 63, 5, 1 << 40];
    for (first, second) in times.into_iter().flat_map(|a| times.map(|b| (a, b))) {
        let (policy, at) = (policy().build().unwrap(), Time::from_nanos);
        let mut trace = Trace::new(&policy, Default::default(), 7, at(second));
        let mut call = Call::new(&policy, Default::default(), 7, at(second));
        for time in [first, second, first, 3, second] {
            trace.fact(&mut call, &Unguarded, at(time), Fact::Drained);
            trace.poll(&mut call, &Unguarded, at(time));
        }
        assert_same("ends of time", &trace, &trace.replay());
        assert_same("ends of time", &trace, &replay(&trace));
    }
}

/// The comparison is worth something: with another decision anywhere it fails.
#[tokio::test]
async fn another_policy_would_have_decided_otherwise() {
    let production = Production::new("otherwise", policy(), |request: &Request| {
        match request.index % 3 {
            2 => Reply::ok("x"),
            _ => Reply::status(503).header("retry-after-ms", "30"),
        }
    });
    production.get().await.unwrap();
    let trace = production.simulated().remove(0);
    let others = [
        policy().max_attempts(2),
        policy().backoff(Backoff::fixed(ms(90)).jitter(Jitter::None)),
        policy().retry_after(RetryAfter {
            honor: false,
            ..RetryAfter::default()
        }),
        policy().deadline(ms(1)),
    ];
    for other in others {
        let other = Trace {
            policy: other.build().unwrap(),
            ..trace.clone()
        };
        assert_ne!(replay(&other).steps, trace.steps, "{:?}", other.policy);
    }
}
