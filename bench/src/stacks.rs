//! The peers' stacks, each with the settings that its own documentation starts from, three
//! attempts, and the same time limit where it has one.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use layered::{Execute, Stack};
use seatbelt::breaker::Breaker;
use seatbelt::retry::Retry;
use seatbelt::timeout::Timeout;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tower::retry::budget::{Budget, TpsBudget};
use tower::{ServiceBuilder, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};
use tower_resilience_retry::RetryLayer;
use tower_resilience_timelimiter::{TimeLimiterError, TimeLimiterLayer};

pub const TOWER: &str = "tower retry(TpsBudget) > timeout";
pub const TOWER_RESILIENCE: &str = "tower-resilience retry > breaker > timelimiter";
pub const SEATBELT: &str = "seatbelt retry > breaker > timeout (layered)";

/// How long an attempt and how long a retry's wait may take, wherever a peer wants to know.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
pub const FIRST_WAIT: Duration = Duration::from_millis(100);

/// What an operation could fail with, but never does.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// What goes in and out of a stack, and the operation in the middle.
pub trait Operation<Req>: Fn(Req) -> Self::Future + Copy + Send + Sync + 'static {
    type Future: Future<Output = Result<u64, Failed>> + Send + 'static;
}

/// tower's retry policy, written as its documentation does it: copies the request, pays for
/// retries from the budget, does not wait.
pub struct Budgeted<Req> {
    budget: Arc<TpsBudget>,
    left: u32,
    copy: fn(&Req) -> Option<Req>,
}

impl<Req> Budgeted<Req> {
    pub fn new(copy: fn(&Req) -> Option<Req>) -> Self {
        Self {
            budget: Arc::new(TpsBudget::default()),
            left: 2,
            copy,
        }
    }
}

pub fn tower<Req: Clone + 'static>(
    operation: impl Operation<Req>,
) -> impl tower::Service<Req, Response = u64, Error: fmt::Debug> + Clone {
    ServiceBuilder::new()
        .layer(tower_retry())
        .layer(tower_timeout())
        .service(service_fn(operation))
}

pub fn tower_retry<Req: Clone>() -> tower::retry::RetryLayer<Budgeted<Req>> {
    tower::retry::RetryLayer::new(Budgeted::new(|request: &Req| Some(request.clone())))
}

pub fn tower_timeout() -> tower::timeout::TimeoutLayer {
    tower::timeout::TimeoutLayer::new(ATTEMPT_TIMEOUT)
}

pub fn tower_resilience<Req: Clone + Send + Sync + 'static>(
    operation: impl Operation<Req>,
) -> impl tower::Service<Req, Response = u64, Error: fmt::Debug> + Clone {
    type Error = CircuitBreakerError<TimeLimiterError<Failed>>;

    let breaker = CircuitBreakerLayer::standard().build();
    let limiter = TimeLimiterLayer::builder()
        .timeout_duration(ATTEMPT_TIMEOUT)
        .build();
    ServiceBuilder::new()
        .layer(tower_resilience_retry::<Req, Error>())
        .layer(breaker.expect("valid settings"))
        .layer(limiter)
        .service(service_fn(operation))
}

pub fn tower_resilience_retry<Req, E>() -> RetryLayer<Req, u64, E>
where
    Req: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    RetryLayer::builder()
        .max_attempts(3)
        .exponential_backoff(FIRST_WAIT)
        .build()
}

/// Made within the runtime that its calls run on: a task there drives its clock's timers.
pub fn seatbelt<Req: Clone + Send + 'static>(
    operation: impl Operation<Req>,
) -> impl layered::Service<Req, Out = Result<u64, Failed>> {
    let context = ResilienceContext::new(tick::Clock::new_tokio());
    let retry = Retry::layer("retry", &context)
        .clone_input()
        .recovery_with(|result, _| recovery(result));
    let breaker = Breaker::layer("breaker", &context)
        .recovery_with(|result, _| recovery(result))
        .rejected_input_error(|_, _| Failed);
    let timeout = Timeout::layer("timeout", &context)
        .timeout_error(|_| Failed)
        .timeout(ATTEMPT_TIMEOUT);
    (retry, breaker, timeout, Execute::new(operation)).into_service()
}

/// The same without breaker and timeout.
pub fn seatbelt_retry<Req: Clone + Send + 'static>(
    operation: impl Operation<Req>,
) -> impl layered::Service<Req, Out = Result<u64, Failed>> {
    let context = ResilienceContext::new(tick::Clock::new_tokio());
    let retry = Retry::layer("retry", &context)
        .clone_input()
        .recovery_with(|result, _| recovery(result));
    (retry, Execute::new(operation)).into_service()
}

impl<Req, O, F> Operation<Req> for O
where
    O: Fn(Req) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<u64, Failed>> + Send + 'static,
{
    type Future = F;
}

impl<Req> Clone for Budgeted<Req> {
    fn clone(&self) -> Self {
        Self {
            budget: Arc::clone(&self.budget),
            ..*self
        }
    }
}

impl<Req, Res, E> tower::retry::Policy<Req, Res, E> for Budgeted<Req> {
    type Future = Ready<()>;

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
        (self.copy)(request)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for Failed {}

fn recovery(result: &Result<u64, Failed>) -> RecoveryInfo {
    match result {
        Ok(_) => RecoveryInfo::never(),
        Err(_) => RecoveryInfo::retry(),
    }
}
