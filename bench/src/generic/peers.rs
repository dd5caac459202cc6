//! The peers, each with the settings that its own documentation starts from, three attempts, and
//! the same time limit where it has one.

use std::future::{Ready as Done, ready};
use std::sync::Arc;
use std::time::Duration;

use backon::Retryable;
use layered::{Execute, Service as _, Stack};
use tokio::runtime::Runtime;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::{ATTEMPT_TIMEOUT, FIRST_WAIT, Failed, Operation, contender, contender_on, runtime};
use crate::rounds::Contender;

pub const TOWER_RESILIENCE: &str = "tower-resilience retry > breaker > timelimiter";
pub const SEATBELT: &str = "seatbelt retry > breaker > timeout (layered)";

/// tower's retry policy, written as its documentation does it: clones the request, pays for
/// retries from the budget, does not wait.
#[derive(Clone)]
pub struct Budgeted {
    budget: Arc<TpsBudget>,
    left: u32,
}

pub fn contenders(operation: impl Operation) -> Vec<Contender<'static>> {
    let mut all = tower(operation);
    all.extend(tower_resilience(operation));
    all.extend(seatbelt(operation));
    all.extend(loops(operation));
    all.extend(breakers(operation));
    all
}

impl Budgeted {
    pub fn new() -> Self {
        Self {
            budget: Arc::new(TpsBudget::default()),
            left: 2,
        }
    }
}

impl<Req: Clone, Res, E> tower::retry::Policy<Req, Res, E> for Budgeted {
    type Future = Done<()>;

    fn retry(&mut self, _: &mut Req, result: &mut Result<Res, E>) -> Option<Self::Future> {
        match result {
            Ok(_) => {
                self.budget.deposit();
                None
            }
            Err(_) if self.left > 0 && self.budget.withdraw() => {
                self.left -= 1;
                Some(ready(()))
            }
            Err(_) => None,
        }
    }

    fn clone_request(&mut self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

fn tower(operation: impl Operation) -> Vec<Contender<'static>> {
    let timeout = || tower::timeout::TimeoutLayer::new(ATTEMPT_TIMEOUT);
    let retry = || tower::retry::RetryLayer::new(Budgeted::new());
    let inner = service_fn(operation);
    vec![
        tower_service(
            "tower retry(TpsBudget)",
            ServiceBuilder::new().layer(retry()).service(inner),
        ),
        tower_service(
            "tower timeout",
            ServiceBuilder::new().layer(timeout()).service(inner),
        ),
        tower_service(
            "tower retry(TpsBudget) > timeout",
            ServiceBuilder::new()
                .layer(retry())
                .layer(timeout())
                .service(inner),
        ),
    ]
}

fn tower_resilience(operation: impl Operation) -> Vec<Contender<'static>> {
    use tower_resilience_circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};
    use tower_resilience_retry::RetryLayer;
    use tower_resilience_timelimiter::{TimeLimiterError, TimeLimiterLayer};

    fn retry<E: Send + Sync + 'static>() -> RetryLayer<u64, u64, E> {
        RetryLayer::builder()
            .max_attempts(3)
            .exponential_backoff(FIRST_WAIT)
            .build()
    }
    let breaker = || {
        CircuitBreakerLayer::standard()
            .build()
            .expect("valid settings")
    };
    let limiter = || {
        TimeLimiterLayer::builder()
            .timeout_duration(ATTEMPT_TIMEOUT)
            .build()
    };
    let inner = service_fn(operation);
    vec![
        tower_service(
            "tower-resilience retry",
            ServiceBuilder::new()
                .layer(retry::<Failed>())
                .service(inner),
        ),
        tower_service(
            TOWER_RESILIENCE,
            ServiceBuilder::new()
                .layer(retry::<CircuitBreakerError<TimeLimiterError<Failed>>>())
                .layer(breaker())
                .layer(limiter())
                .service(inner),
        ),
    ]
}

fn seatbelt(operation: impl Operation) -> Vec<Contender<'static>> {
    use seatbelt::breaker::Breaker;
    use seatbelt::retry::Retry;
    use seatbelt::timeout::Timeout;
    use seatbelt::{RecoveryInfo, ResilienceContext};

    type Output = Result<u64, Failed>;
    fn recovery(result: &Output) -> RecoveryInfo {
        match result {
            Ok(_) => RecoveryInfo::never(),
            Err(_) => RecoveryInfo::retry(),
        }
    }
    // Its clock's timers are driven by a task of the runtime that it was made in.
    let [first, second] = [runtime(), runtime()];
    let context = |runtime: &Runtime| {
        let _entered = runtime.enter();
        ResilienceContext::<u64, Output>::new(tick::Clock::new_tokio())
    };
    let simple = context(&first);
    let whole = context(&second);
    let retry = |context| {
        Retry::layer("retry", context)
            .clone_input()
            .recovery_with(|result, _| recovery(result))
    };
    let breaker = Breaker::layer("breaker", &whole)
        .recovery_with(|result, _| recovery(result))
        .rejected_input_error(|_, _| Failed);
    let timeout = Timeout::layer("timeout", &whole)
        .timeout_error(|_| Failed)
        .timeout(ATTEMPT_TIMEOUT);
    let simple = (retry(&simple), Execute::new(operation)).into_service();
    let whole = (retry(&whole), breaker, timeout, Execute::new(operation)).into_service();
    vec![
        contender_on(first, "seatbelt retry (layered)", async move |n| {
            simple.execute(n).await
        }),
        contender_on(second, SEATBELT, async move |n| whole.execute(n).await),
    ]
}

/// Those that only try again.
fn loops(operation: impl Operation) -> Vec<Contender<'static>> {
    vec![
        contender("backon", async move |n| {
            (|| operation(n))
                .retry(backon::ExponentialBuilder::default())
                .await
        }),
        contender("backoff", async move |n| {
            backoff::future::retry(backoff::ExponentialBackoff::default(), || async {
                operation(n).await.map_err(backoff::Error::transient)
            })
            .await
        }),
        contender("tokio-retry2", async move |n| {
            let waits = tokio_retry2::strategy::ExponentialFactorBackoff::from_millis(100, 2.0);
            tokio_retry2::Retry::spawn(waits.take(2), || async {
                operation(n)
                    .await
                    .map_err(tokio_retry2::RetryError::transient)
            })
            .await
        }),
    ]
}

/// Those that only break.
fn breakers(operation: impl Operation) -> Vec<Contender<'static>> {
    use failsafe::futures::CircuitBreaker as _;

    let windowed = failsafe::Config::new().build();
    let waits = failsafe::backoff::exponential(Duration::from_secs(10), Duration::from_secs(60));
    let consecutive = failsafe::failure_policy::consecutive_failures(5, waits);
    let consecutive = failsafe::Config::new().failure_policy(consecutive).build();
    let recloser = recloser::AsyncRecloser::from(recloser::Recloser::default());
    vec![
        contender("failsafe, breaker alone, success rate", async move |n| {
            windowed.call(operation(n)).await
        }),
        contender("failsafe, breaker alone, consecutive", async move |n| {
            consecutive.call(operation(n)).await
        }),
        contender("recloser, breaker alone", async move |n| {
            recloser.call(operation(n)).await
        }),
    ]
}

fn tower_service<S>(name: &str, mut service: S) -> Contender<'static>
where
    S: Service<u64> + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    contender(name, async move |n| {
        let service = service.ready().await;
        match service {
            Ok(service) => service.call(n).await,
            Err(error) => Err(error),
        }
    })
}
