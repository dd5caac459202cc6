//! What is written down of a run.

use seawall_engine::Kind;

use crate::histogram::Histogram;
use crate::model::Model;

/// What happened in one run: counts, and a row for each bucket of time.
#[derive(Clone, Debug)]
pub struct Record {
    bucket: u64,
    warm_up: u64,
    /// Buckets that are over.
    pub rows: Vec<Row>,
    present: Row,
    latency: Histogram,
    /// Latencies of calls that succeeded, after the warm-up.
    pub latencies: Histogram,
    /// Latencies of the parts of calls that fan out.
    pub part_latencies: Histogram,
    /// By the bucket in which a call began: how many of them succeeded.
    pub succeeded_by_start: Vec<u32>,
    /// Requests that arrived, by server.
    pub arrivals: Vec<u64>,
    /// Over the whole run, drained part included.
    pub totals: Row,
    /// Events that happened.
    pub events: u64,
    /// When the last one did, in nanoseconds.
    pub last_event: u64,
    /// Calls that were not over at the end.
    pub unfinished: u64,
    /// Writes that a versioned server took.
    pub commits: u64,
    /// The run was stopped before its end.
    pub stopped: bool,
    limit: usize,
}

/// What happened in a bucket of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Calls that began.
    pub calls: u64,
    /// Calls that ended well.
    pub goodput: u64,
    /// Calls that failed.
    pub failures: u64,
    /// First attempts.
    pub first: u64,
    /// Retries.
    pub retries: u64,
    /// Hedges.
    pub hedges: u64,
    /// Requests that a server turned away.
    pub rejects: u64,
    /// Calls that ended by a refusal of the client's own guards.
    pub refusals: u64,
    /// Calls that ended because the budget was spent.
    pub unpaid: u64,
    /// Attempts that ran out of time.
    pub timeouts: u64,
    /// Requests that were served.
    pub served: u64,
    /// Of these, those that nobody waited for any longer.
    pub wasted: u64,
    /// Requests that a server dropped unserved because nobody waited for them any longer.
    pub dropped: u64,
    /// Requests in queues, at the end of the bucket.
    pub queue: u64,
    /// Attempts on their way or being served, at the end of the bucket.
    pub in_flight: u64,
    /// The share of the sampled breakers that are open.
    pub breaker_open: f64,
    /// Tokens in the sampled budgets, on average.
    pub tokens: f64,
    /// Latency of the calls that succeeded, in milliseconds: p50, p99, p99.9; NaN without any.
    pub latency_ms: [f64; 3],
}

impl Record {
    pub(crate) fn new(model: &Model) -> Self {
        let bucket = model.bucket.as_nanos() as u64;
        let buckets = (model.duration.as_nanos() as u64).div_ceil(bucket) as usize;
        Self {
            bucket,
            warm_up: model.warm_up.as_nanos() as u64,
            rows: Vec::with_capacity(buckets.min(1 << 20)),
            present: Row::default(),
            latency: Histogram::default(),
            latencies: Histogram::default(),
            part_latencies: Histogram::default(),
            succeeded_by_start: vec![0; buckets.max(1)],
            arrivals: vec![0; model.servers.len()],
            totals: Row::default(),
            events: 0,
            last_event: 0,
            unfinished: 0,
            commits: 0,
            stopped: false,
            limit: buckets.max(1),
        }
    }

    /// The length of a bucket in seconds.
    pub fn bucket_seconds(&self) -> f64 {
        self.bucket as f64 / 1e9
    }

    /// Attempts sent.
    pub fn attempts(&self) -> u64 {
        self.totals.first + self.totals.retries + self.totals.hedges
    }

    #[inline]
    pub(crate) fn bucket_end(&self) -> u64 {
        (self.rows.len() as u64 + 1).saturating_mul(self.bucket)
    }

    pub(crate) fn is_past(&self, end: u64) -> bool {
        self.bucket_end() > end
    }

    /// A run that drains has rows beyond its duration; their number is bounded, their length grows.
    pub(crate) fn extend(&mut self) {
        const MOST: usize = 20_000;
        if self.rows.len() > self.limit + MOST {
            // Thinned out: two rows become one, and buckets twice as long.
            self.rows = self.rows.chunks(2).map(merged).collect();
            self.bucket *= 2;
            self.limit = self.limit.div_ceil(2);
            self.succeeded_by_start = self
                .succeeded_by_start
                .chunks(2)
                .map(|pair| pair.iter().sum())
                .collect();
        }
    }

    pub(crate) fn close_bucket(&mut self, queue: u64, in_flight: u64, open: f64, tokens: f64) {
        let mut row = core::mem::take(&mut self.present);
        (row.queue, row.in_flight) = (queue, in_flight);
        (row.breaker_open, row.tokens) = (open, tokens);
        row.latency_ms =
            [0.5, 0.99, 0.999].map(|q| self.latency.quantile(q).map_or(f64::NAN, |ns| ns / 1e6));
        self.latency.clear();
        self.totals.queue = self.totals.queue.max(queue);
        self.totals.in_flight = self.totals.in_flight.max(in_flight);
        self.rows.push(row);
    }

    #[inline]
    pub(crate) fn began(&mut self) {
        self.present.calls += 1;
        self.totals.calls += 1;
    }

    #[inline]
    pub(crate) fn ended(&mut self, now: u64, began: u64, success: bool) {
        if !success {
            self.present.failures += 1;
            self.totals.failures += 1;
            return;
        }
        self.present.goodput += 1;
        self.totals.goodput += 1;
        self.latency.add(now - began);
        if began >= self.warm_up {
            self.latencies.add(now - began);
        }
        if let Some(count) = self
            .succeeded_by_start
            .get_mut((began / self.bucket) as usize)
        {
            *count += 1;
        }
    }

    #[inline]
    pub(crate) fn part_ended(&mut self, now: u64, began: u64) {
        self.part_latencies.add(now - began);
    }

    #[inline]
    pub(crate) fn sent(&mut self, kind: Kind) {
        for row in [&mut self.present, &mut self.totals] {
            match kind {
                Kind::First => row.first += 1,
                Kind::Retry => row.retries += 1,
                Kind::Hedge => row.hedges += 1,
            }
        }
    }

    #[inline]
    pub(crate) fn count_arrival(&mut self, server: usize) {
        self.arrivals[server] += 1;
    }

    pub(crate) fn rejected(&mut self) {
        self.present.rejects += 1;
        self.totals.rejects += 1;
    }

    pub(crate) fn refused(&mut self) {
        self.present.refusals += 1;
        self.totals.refusals += 1;
    }

    pub(crate) fn unpaid(&mut self) {
        self.present.unpaid += 1;
        self.totals.unpaid += 1;
    }

    pub(crate) fn timed_out(&mut self) {
        self.present.timeouts += 1;
        self.totals.timeouts += 1;
    }

    #[inline]
    pub(crate) fn served(&mut self, in_vain: bool) {
        self.present.served += 1;
        self.totals.served += 1;
        if in_vain {
            self.present.wasted += 1;
            self.totals.wasted += 1;
        }
    }

    pub(crate) fn dropped(&mut self) {
        self.present.dropped += 1;
        self.totals.dropped += 1;
    }
}

fn merged(pair: &[Row]) -> Row {
    let mut whole = pair[pair.len() - 1];
    if let [before, _] = pair {
        whole.calls += before.calls;
        whole.goodput += before.goodput;
        whole.failures += before.failures;
        whole.first += before.first;
        whole.retries += before.retries;
        whole.hedges += before.hedges;
        whole.rejects += before.rejects;
        whole.refusals += before.refusals;
        whole.unpaid += before.unpaid;
        whole.timeouts += before.timeouts;
        whole.served += before.served;
        whole.wasted += before.wasted;
        whole.dropped += before.dropped;
    }
    whole
}
