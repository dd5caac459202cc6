//! What a call in flight holds: the size of its future, and what hangs on the heap by it.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use backon::Retryable;
use http::Request;
use layered::Service as _;
use seawall::{HedgeSettings, Policy, retry};
use tower::{Service, ServiceExt};

use crate::allocations::Allocated;
use crate::stacks::{self, Failed};
use crate::table::{Table, Target};

const OURS: &str = "Seawall retry(), default policy";

/// What target 5 leaves a call beyond its own copy of the request and the inner future.
const ALLOWED: f64 = 512.0;

/// An operation that holds its request and never ends.
struct Endless(#[expect(dead_code, reason = "held")] Request<()>);

/// One call in flight.
struct Held {
    future: usize,
    heap: i64,
}

pub fn run(tables: &mut Vec<Table>, targets: &mut Vec<Target>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let note = "request http::Request<()>, polled once, inner pending for ever; beyond: without the \
                call's own copy of the request and the inner future";
    let columns = ["future", "heap", "beyond"];
    let mut table = Table::new("Bytes held per call in flight", note, &columns);
    for (name, held) in rows() {
        let beyond = held.beyond();
        table.row(name, [held.future as f64, held.heap as f64, beyond]);
        if name == OURS {
            let what = "bytes beyond request copy and inner future";
            targets.push(Target::at_most(5, what, ALLOWED, beyond, "bytes"));
        }
    }
    tables.push(table);
    tables.push(http());
}

impl Held {
    /// The second of two calls: what the first one leaves behind is not the call's.
    fn of<F: Future>(mut make: impl FnMut() -> F) -> Self {
        Self::once(&mut make);
        Self::once(make)
    }

    fn once<F: Future>(make: impl FnOnce() -> F) -> Self {
        let before = Allocated::here();
        let mut future = pin!(make());
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the inner never ends");
        Self {
            future: size_of::<F>(),
            heap: Allocated::since(before).held,
        }
    }

    fn beyond(&self) -> f64 {
        let own = size_of::<Request<()>>() + size_of::<Endless>();
        self.future as f64 + self.heap as f64 - own as f64
    }
}

impl Future for Endless {
    type Output = Result<u64, Failed>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

fn rows() -> Vec<(&'static str, Held)> {
    let policy = Policy::default();
    let hedging = Policy::builder().hedge(HedgeSettings::at_quantile(0.95));
    let hedging = hedging.build().expect("a valid policy");
    let ours = |policy: &Policy| {
        Held::of(|| {
            let request = Request::new(());
            retry(policy, move || Endless(request.clone())).into_future()
        })
    };
    let seatbelt = stacks::seatbelt(Endless);
    vec![
        (OURS, ours(&policy)),
        (
            "Seawall retry(), default and hedging at p95",
            ours(&hedging),
        ),
        (stacks::TOWER, tower_service(stacks::tower(Endless))),
        (
            stacks::TOWER_RESILIENCE,
            tower_service(stacks::tower_resilience(Endless)),
        ),
        (
            stacks::SEATBELT,
            Held::of(|| seatbelt.execute(Request::new(()))),
        ),
        (
            "backon",
            Held::of(|| {
                let request = Request::new(());
                let again = move || Endless(request.clone());
                again
                    .retry(backon::ExponentialBuilder::default())
                    .into_future()
            }),
        ),
    ]
}

/// A GET whose server accepts and says nothing.
fn http() -> Table {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", silent.local_addr().expect("its address"));
    let plain = reqwest::Client::new();
    let ours = seawall::Client::new();
    let note =
        "a GET polled once, connecting; heap: what the request, its URL and the attempt take";
    let mut table = Table::new("Bytes held per HTTP call", note, &["future", "heap"]);
    for (name, held) in [
        ("reqwest, send()", Held::of(|| plain.get(&url).send())),
        ("Seawall client, send()", Held::of(|| ours.get(&url).send())),
    ] {
        table.row(name, [held.future as f64, held.heap as f64]);
    }
    table
}

fn tower_service<S>(mut service: S) -> Held
where
    S: Service<Request<()>>,
    S::Error: std::fmt::Debug,
{
    Held::of(|| {
        let mut ready = pin!(service.ready());
        match ready.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(service)) => service.call(Request::new(())),
            _ => panic!("a service that is always ready"),
        }
    })
}
