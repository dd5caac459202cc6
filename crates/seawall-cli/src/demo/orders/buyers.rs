use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::buyer::Caller;
use super::plan::Plan;
use super::service::Purchase;

/// All the orders of one buyer: several at a time, none before it is due.
#[derive(Debug)]
pub(super) struct Buyers {
    caller: Caller,
    orders: String,
    charges: String,
    plan: Plan,
    begun: Instant,
    next: AtomicU32,
    bought: AtomicU32,
    attempts: AtomicU64,
}

impl Buyers {
    pub(super) fn new(
        caller: Caller,
        orders: String,
        charges: String,
        plan: Plan,
        begun: Instant,
    ) -> Arc<Self> {
        Arc::new(Self {
            caller,
            orders,
            charges,
            plan,
            begun,
            next: AtomicU32::new(0),
            bought: AtomicU32::new(0),
            attempts: AtomicU64::new(0),
        })
    }

    /// Buys, until everything was asked for and all calls have ended.
    pub(super) async fn buy_all(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for _ in 0..Plan::AT_ONCE {
            tasks.spawn(Arc::clone(&self).buy_one_after_another());
        }
        tasks.join_all().await;
    }

    /// Orders that the buyer knows to be made and charged for.
    pub(super) fn bought(&self) -> u32 {
        self.bought.load(Ordering::Relaxed)
    }

    pub(super) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }

    async fn buy_one_after_another(self: Arc<Self>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.plan.orders {
                return;
            }
            tokio::time::sleep_until(self.begun + self.plan.gap() * number).await;
            let purchase = Purchase {
                number,
                amount: 4_200,
            };
            if self.post(&self.orders, "order", &purchase).await
                && self.post(&self.charges, "charge", &purchase).await
            {
                self.bought.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn post(&self, url: &str, what: &str, purchase: &Purchase) -> bool {
        let key = format!("{what}-{}", purchase.number);
        let called = self.caller.post(url, key, purchase).await;
        self.attempts
            .fetch_add(called.attempts.into(), Ordering::Relaxed);
        called.succeeded
    }
}
