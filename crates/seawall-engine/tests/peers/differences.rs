/// Where our answer is not the peer's, on purpose: the vector, the rule behind it, and why.
pub(crate) const DIFFERENCES: [(&str, &str, &str); 7] = [
    (
        "po-decorrelated-v2",
        "W2",
        "Decorrelated is Brooker's U[base, min(cap, 3·previous)]; Polly's smoothed formula is not offered.",
    ),
    (
        "a6-backoff",
        "W3",
        "At the cap gRPC spreads beyond it; ours slides the range below the cap, which is a promise.",
    ),
    (
        "ce-exp",
        "W3",
        "The interval is the same; cenkalti's jitter may pass the maximum, ours never does.",
    ),
    (
        "aw-transient-cost10",
        "S3",
        "A wait that the server named is spread by up to a quarter on top, so that callers do not return in step.",
    ),
    (
        "fg-budget-.5-min1",
        "GB",
        "Ours never holds more retries than the share allows; the peer lets one more through.",
    ),
    (
        "gr-max2-500",
        "E3",
        "The count is the same; the words of the error are ours, and the last response is returned (E1).",
    ),
    (
        "a6-transparent",
        "W1",
        "max_attempts counts every send, also those that the server says it did not see.",
    ),
];
