/// Where our answer is not the peer's, on purpose. `docs/peer-differences.md` is made of it.
pub(crate) struct Difference {
    /// The vector that shows it; empty where the peers' own tests do not.
    pub(crate) vector: &'static str,
    /// Whose it is.
    pub(crate) peer: &'static str,
    /// What they do.
    pub(crate) theirs: &'static str,
    /// What ours does.
    pub(crate) ours: &'static str,
    /// The rule behind it.
    pub(crate) rule: &'static str,
}

const fn differs(
    peer: &'static str,
    vector: &'static str,
    theirs: &'static str,
    ours: &'static str,
    rule: &'static str,
) -> Difference {
    Difference {
        vector,
        peer,
        theirs,
        ours,
        rule,
    }
}

#[rustfmt::skip]
pub(crate) const DIFFERENCES: &[Difference] = &[
    differs("failsafe-go", "fg-budget-.5-min1", "lets one more retry through than the share allows, as Envoy does", "never holds more retries at once than the share", "GB"),
    differs("failsafe-go", "fg-rl-bursty-2ps", "permits come back at the start of each period, and are lent from later ones", "a token bucket gains them evenly; more than the burst at once fails", "GL"),
    differs("failsafe-go", "", "a smooth limiter hands out slots of a fixed grid", "a turn is due one interval after the one before", "GL"),
    differs("failsafe-go", "fg-quantile-constant", "a moving estimate of the quantile", "a histogram's quantile, within 2 %", "H2"),
    differs("failsafe-go", "", "buckets start at multiples of their length", "ten buckets that slide: 90 to 100 % of the window is held", "GK1"),
    differs("failsafe-go", "", "jitter is added after the cap", "no delay is above the cap", "W3"),
    differs("Polly", "po-decorrelated-v2", "jitter by a smoothed formula (DecorrelatedJitterV2)", "jitter around the exponential delay; `decorrelated` is Brooker's U[base, min(cap, 3·previous)]", "W2"),
    differs("Polly", "", "the cap is cut after randomising, so that delays at it are all alike", "still random at the cap: the range slides below it", "W3"),
    differs("Polly", "", "buckets start at the first event", "ten buckets that slide: 90 to 100 % of the window is held", "GK1"),
    differs("Microsoft.Extensions.Http.Resilience", "ms-transient-statuses", "505 and the like are repeated", "final: a server that cannot will not next time either", "C2"),
    differs("Microsoft.Extensions.Http.Resilience", "ms-retry-after", "waits exactly what is asked, of whatever length", "with jitter on top; a wait that does not fit ends the call with the response in hand", "S3, S4"),
    differs("resilience4j", "rj-cb-3f2s-open", "judges on every result: a success may open", "judges when a failure or a slow call is recorded: the next failure opens", "GK1"),
    differs("resilience4j", "rj-cb-ho-slow75", "judges probes when all are back, reopening late", "reopens at the second slow probe of 4, as no other ending is possible", "GK4"),
    differs("resilience4j", "rj-cb-ho-ignored-releases", "judges probes when all are back, closing late", "closes at the third success of 4, as no other ending is possible", "GK4"),
    differs("resilience4j", "", "buckets are whole seconds of the epoch", "ten buckets that slide: 90 to 100 % of the window is held", "GK1"),
    differs("resilience4j", "rj-hedge-avg-200pct", "hedges after twice the average", "hedges at a quantile of the latencies, or after a fixed time", "H2"),
    differs("resilience4j", "rj-hedge-avg-errors", "hedges after the average, errors included", "hedges at a quantile of the latencies, or after a fixed time", "H2"),
    differs("resilience4j", "rj-rl-timeout0", "permits come with each cycle, and are reserved from later ones", "a token bucket: one interval after the last", "GL"),
    differs("hystrix-go", "hy-single-test", "strictly after the sleep window; a test per window, whatever became of the last", "at t = until; a probe holds its slot until it settles or its lease is over", "GK3, GK4"),
    differs("hystrix-go", "hy-rolling-avg", "averages over buckets, empty ones too; likewise the rolling maximum", "averages over the calls in the window", "GK1"),
    differs("hystrix-go", "", "rounds rates to whole percent", "rates are exact: 49.6 % is not 50", "GK1"),
    differs("sentinel-golang", "", "half-open with a number of probes admits everybody", "half-open admits as many as there are probes", "GK4"),
    differs("gRPC A6", "a6-backoff", "spreads beyond the cap", "the range slides below the cap, which is a promise", "W3"),
    differs("gRPC A6", "a6-transparent", "what never reached the server is repeated uncounted", "max_attempts and the budget count every send", "W1, GB"),
    differs("gRPC A6", "", "waits a pushback exactly", "a pushback is a least wait, with jitter on top", "S3"),
    differs("gRPC A6", "", "clamps maxAttempts at 5", "takes it as it is", "W1"),
    differs("aws-sdk standard (smithy-rs)", "aw-transient-cost10", "waits exactly what is asked", "spread by up to a quarter on top, so that callers do not return in step", "S3"),
    differs("aws-sdk standard (smithy-rs)", "aw-v20-retry-after", "waits the limit in silence", "waits the limit only with `over = \"cap\"`, with jitter on top, and the report says so; else the call ends", "S3, S4"),
    differs("aws-sdk standard (smithy-rs)", "", "version 2.1 clamps a wish to the backoff and 5 s more", "a wish is taken up to `retry_after.max`", "S4"),
    differs("finagle", "fi-fa-hybrid-max", "several policies, the longest dead time wins", "one breaker has one open time, which grows", "GK3"),
    differs("finagle", "fi-brf-orig-fastfail", "latencies of fast failures are left out", "an answer's latency is one, whatever its status (no backup is brought forward in both)", "H2"),
    differs("finagle", "", "success rate as a decaying average", "the rate of what is in the window: what has left it counts for nothing", "GK1"),
    differs("finagle", "", "deposits in the budget expire after 10 s", "tokens are kept up to `burst`", "GB"),
    differs("golang/x/time/rate", "", "a rate of 0 is the burst, and then never", "refused as a setting that cannot be", "GL, P1"),
    differs("envoy", "en-reset-header", "a reset header counts exactly, one in the past not at all", "with jitter on top, and only when nothing remains; one in the past is a wait of 0", "S1, S2, S3"),
    differs("envoy", "", "documents a range of 2^N - 1 times the base", "the range is 0 to the doubled delay, as in its code", "W2"),
    differs("go-retryablehttp", "gr-retry-after-parse", "the first of several lines wins", "the longest wait wins", "S1"),
    differs("go-retryablehttp", "gr-retry-after-vs-status", "a hint counts with 429 and 503, and replaces the backoff", "a hint counts with every status (502 too), as a least wait, and does not undercut the backoff", "S3"),
    differs("go-retryablehttp", "gr-max2-500", "\"giving up after 3 attempt(s)\", the response dropped", "the count is the same; the words are ours, and the last response is returned", "E1, E3"),
    differs("cenkalti/backoff", "ce-exp", "jitter may pass the maximum", "the interval is the same; no delay is above the cap", "W3"),
    differs("cenkalti/backoff", "", "rounds by `trunc(min + r·(max - min + 1))`", "whole nanoseconds of the range itself", "W2"),
];
