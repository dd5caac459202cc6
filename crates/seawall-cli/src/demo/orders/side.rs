use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

use super::buyer::Buyer;
use super::buyers::Buyers;
use super::findings::Tally;
use super::network::Network;
use super::plan::Plan;
use super::shop::Shop;
use crate::complaint::Complaint;

/// A buyer, a server, and the network between them.
#[derive(Debug)]
pub(super) struct Side {
    buyer: Buyer,
    plan: Plan,
    buyers: Arc<Buyers>,
    network: Network,
    database: PathBuf,
    killed: AtomicU64,
}

impl Side {
    pub(super) async fn new(
        buyer: Buyer,
        plan: Plan,
        directory: &Path,
        begun: Instant,
    ) -> Result<Self, Complaint> {
        let failed =
            |error: &dyn std::fmt::Display| Complaint::other(format!("{}: {error}", buyer.name()));
        let network = Network::start().await.map_err(|error| failed(&error))?;
        let caller = buyer.caller().map_err(|error| failed(&error))?;
        let (orders, charges) = (network.url("/orders"), network.url("/charges"));
        Ok(Self {
            buyer,
            plan,
            buyers: Buyers::new(caller, orders, charges, plan, begun),
            network,
            database: directory.join(format!("{buyer:?}.db").to_lowercase()),
            killed: AtomicU64::new(0),
        })
    }

    /// Buys everything, while the server is killed now and then; then counts.
    pub(super) async fn run(&self) -> Result<Tally, Complaint> {
        let shop = self.open().await?;
        let (tell, done) = watch::channel(false);
        let buying = async {
            Arc::clone(&self.buyers).buy_all().await;
            let _ = tell.send(true);
            Ok(())
        };
        let ((), shop) = tokio::try_join!(buying, self.kill_now_and_then(shop, done))?;
        let books = shop.close().await?;
        Ok(Tally {
            name: self.buyer.name(),
            orders_asked: self.plan.orders,
            orders_made: books.orders,
            charges_made: books.charges,
            duplicates: books.duplicates,
            missing: u64::from(self.plan.orders).saturating_sub(books.complete),
            confirmed: self.bought(),
            attempts: self.buyers.attempts(),
            answers_dropped: self.answers_dropped(),
            times_killed: self.times_killed(),
        })
    }

    pub(super) fn buyer(&self) -> Buyer {
        self.buyer
    }

    pub(super) fn bought(&self) -> u32 {
        self.buyers.bought()
    }

    pub(super) fn answers_dropped(&self) -> u64 {
        self.network.dropped()
    }

    pub(super) fn times_killed(&self) -> u64 {
        self.killed.load(Ordering::Relaxed)
    }

    async fn open(&self) -> Result<Shop, Complaint> {
        let shop = Shop::open(&self.database, self.plan.keys_remembered).await?;
        self.network.lead(Some(shop.address()));
        Ok(shop)
    }

    /// Kills the server at moments that the plan names, and starts it again, until all is bought.
    async fn kill_now_and_then(
        &self,
        mut shop: Shop,
        mut done: watch::Receiver<bool>,
    ) -> Result<Shop, Complaint> {
        let mut dice = fastrand::Rng::with_seed(Plan::SEED);
        let mut requests = self.network.requests();
        for kill in self.plan.kills() {
            tokio::select! {
                broken = shop.broken() => return Err(broken),
                _ = done.wait_for(|done| *done) => return Ok(shop),
                _ = requests.wait_for(|requests| *requests >= kill) => {}
            }
            // Sometimes before the effect, sometimes after it, sometimes while it is committed.
            let moment = Plan::WORK.mul_f64(2.0 * dice.f64());
            tokio::time::sleep(moment).await;
            self.network.lead(None);
            shop.kill().await?;
            self.killed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Plan::AWAY).await;
            shop = self.open().await?;
        }
        tokio::select! {
            broken = shop.broken() => Err(broken),
            _ = done.wait_for(|done| *done) => Ok(shop),
        }
    }
}
