use std::fmt;
use std::time::Duration;

/// What is bought, and what goes wrong meanwhile.
#[derive(Clone, Copy, Debug)]
pub(in crate::demo) struct Plan {
    /// Orders that each buyer wants to make.
    pub(in crate::demo) orders: u32,
    /// They are spread over this time.
    pub(in crate::demo) lasting: Duration,
    /// Whether the servers honour an `Idempotency-Key`.
    pub(in crate::demo) keys_remembered: bool,
}

impl Plan {
    /// Orders that a buyer is busy with at a time.
    pub(super) const AT_ONCE: usize = 8;
    /// Both give an attempt up after this time.
    pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1_000);
    /// One answer in so many is dropped.
    pub(super) const DROPPED_ONE_IN: u32 = 10;
    /// How long a server that was killed stays away.
    pub(super) const AWAY: Duration = Duration::from_millis(250);
    /// What the server does before it writes anything.
    pub(super) const WORK: Duration = Duration::from_millis(15);
    /// What is dropped and killed is the same in every run.
    pub(super) const SEED: u64 = 7;

    /// How long after the one before it an order is due.
    pub(super) fn gap(&self) -> Duration {
        self.lasting / self.orders
    }

    /// How many requests the server gets before it is killed, each time.
    pub(super) fn kills(&self) -> impl Iterator<Item = u64> + use<> {
        let times = u64::from(self.orders / 100).clamp(1, 5);
        let requests = 2 * u64::from(self.orders);
        (1..=times).map(move |time| (requests * time / (times + 1)).max(1))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = match self.kills().count() {
            1 => "Once".to_owned(),
            times => format!("{times} times"),
        };
        write!(
            f,
            "{} orders, each of them two calls: the order, then its charge. A server writes them to \
             SQLite.\nOne answer in {} is dropped on its way back, when the work is done. {times} the \
             server is killed\n(SIGKILL) at its work and started again. Two such servers, two buyers:",
            self.orders,
            Self::DROPPED_ONE_IN,
        )
    }
}
