//! The peers, around the operation that costs nothing.

use std::time::Duration;

use backon::Retryable;
use layered::Service as _;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use super::{contender, contender_on, runtime};
use crate::rounds::Contender;
use crate::stacks::{self, Failed, Operation};

pub fn contenders(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
    let mut all = tower(operation);
    all.extend(tower_resilience(operation));
    all.extend(seatbelt(operation));
    all.extend(loops(operation));
    all.extend(breakers(operation));
    all
}

fn tower(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
    let inner = service_fn(operation);
    vec![
        tower_service(
            "tower retry(TpsBudget)",
            ServiceBuilder::new()
                .layer(stacks::tower_retry())
                .service(inner),
        ),
        tower_service(
            "tower timeout",
            ServiceBuilder::new()
                .layer(stacks::tower_timeout())
                .service(inner),
        ),
        tower_service(stacks::TOWER, stacks::tower(operation)),
    ]
}

fn tower_resilience(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
    vec![
        tower_service(
            "tower-resilience retry",
            ServiceBuilder::new()
                .layer(stacks::tower_resilience_retry::<u64, Failed>())
                .service(service_fn(operation)),
        ),
        tower_service(
            stacks::TOWER_RESILIENCE,
            stacks::tower_resilience(operation),
        ),
    ]
}

fn seatbelt(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
    let [first, second] = [runtime(), runtime()];
    let simple = {
        let _entered = first.enter();
        stacks::seatbelt_retry(operation)
    };
    let whole = {
        let _entered = second.enter();
        stacks::seatbelt(operation)
    };
    vec![
        contender_on(first, "seatbelt retry (layered)", async move |n| {
            simple.execute(n).await
        }),
        contender_on(second, stacks::SEATBELT, async move |n| {
            whole.execute(n).await
        }),
    ]
}

/// Those that only try again.
fn loops(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
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
fn breakers(operation: impl Operation<u64>) -> Vec<Contender<'static>> {
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
