//! What can be known without a simulation (SIMULATION's closed forms): the yardsticks of the tests,
//! and the reasons in a verdict.

/// Attempts per call when each fails with probability `p` and at most `r` are made:
/// `(1 - p^r) / (1 - p)`.
pub fn load_per_call(p: f64, r: f64) -> f64 {
    if p >= 1.0 {
        r
    } else {
        (1.0 - libm::pow(p, r)) / (1.0 - p)
    }
}

/// The share of calls that succeed: `1 - p^r`.
pub fn success_ratio(p: f64, r: f64) -> f64 {
    1.0 - libm::pow(p, r)
}

/// The load of a server that takes `capacity` per second and refuses the rest, when `offered` calls
/// per second are made and each attempted `r` times: with `p = (1 - capacity/offered)^(1/r)` it is
/// `capacity / (1 - p)`.
pub fn shed_equilibrium(capacity: f64, offered: f64, r: f64) -> f64 {
    if offered <= capacity {
        return offered;
    }
    capacity / (1.0 - libm::pow(1.0 - capacity / offered, 1.0 / r))
}

/// The mean time in an M/G/1 queue, Pollaczek and Khinchine: `E[S] + λ·E[S²] / (2(1-ρ))`.
pub fn mg1_time(rate: f64, mean: f64, second_moment: f64) -> f64 {
    mean + rate * second_moment / (2.0 * (1.0 - rate * mean))
}

/// Erlang C: the probability that an arrival at an M/M/c queue waits, at utilisation `rho`.
pub fn erlang_c(servers: u32, rho: f64) -> f64 {
    let load = rho * f64::from(servers);
    // Erlang B by its recursion, which stays within bounds for any number of servers.
    let blocked = (1..=servers).fold(1.0, |b, n| load * b / (f64::from(n) + load * b));
    blocked / (1.0 - rho * (1.0 - blocked))
}

/// The mean wait in an M/M/c queue, in service times: `C / (c(1-ρ))`.
pub fn mmc_wait(servers: u32, rho: f64) -> f64 {
    erlang_c(servers, rho) / (f64::from(servers) * (1.0 - rho))
}

/// The load beyond which a FIFO server that clients leave after a timeout cannot come back:
/// `µ / attempts`, or `µ / (1 + b)` where a budget of ratio `b` is the tighter bound.
pub fn hidden_capacity(mu: f64, attempts: f64, budget: Option<f64>) -> f64 {
    let most = budget.map_or(attempts, |ratio| attempts.min(1.0 + ratio));
    mu / most
}

/// The time a backlog takes to drain, in seconds; infinite when it does not.
pub fn drain_time(backlog: f64, mu: f64, load: f64) -> f64 {
    if load >= mu {
        f64::INFINITY
    } else {
        backlog / (mu - load)
    }
}

/// The growth `g` of a throttle's recovery per window: `g = K(1 - e^-g)`; 0 for K ≤ 1.
pub fn throttle_growth(k: f64) -> f64 {
    if k <= 1.0 {
        return 0.0;
    }
    let mut g = k;
    for _ in 0..200 {
        g = k * (1.0 - libm::exp(-g));
    }
    g
}

/// The share of fan-outs over `n` parts that meet at least one slow part: `1 - (1-p)^n`.
pub fn fan_out_slow(p: f64, n: f64) -> f64 {
    1.0 - libm::exp(n * libm::log1p(-p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_give_the_published_numbers() {
        let near = |a: f64, b: f64, by: f64| assert!((a - b).abs() <= by, "{a} {b}");
        near(load_per_call(0.5, 4.0), 1.875, 1e-12);
        near(success_ratio(0.5, 4.0), 0.9375, 1e-12);
        near(shed_equilibrium(10_000.0, 10_100.0, 10.0), 27_051.0, 1.0);
        near(mg1_time(8.0, 0.1, 0.02), 0.5, 1e-12);
        near(mg1_time(0.8 / 0.1099, 0.1099, 0.21998), 4.113, 1e-3);
        near(erlang_c(1, 0.8), 0.8, 1e-12);
        near(erlang_c(10, 0.8), 0.4092, 5e-5);
        near(mmc_wait(10, 0.8), 0.2046, 5e-5);
        near(erlang_c(100, 0.9), 0.2169, 5e-5);
        near(throttle_growth(2.0), 1.594, 1e-3);
        near(throttle_growth(1.5), 0.874, 1e-3);
        near(throttle_growth(1.1), 0.194, 1e-3);
        near(fan_out_slow(0.01, 100.0), 0.6340, 5e-5);
        near(fan_out_slow(1e-4, 2000.0), 0.1813, 5e-5);
        near(hidden_capacity(300.0, 2.0, Some(0.1)), 272.7, 0.1);
    }
}
