//! The breaker beside a model that is too simple to be wrong: a million random operations, and
//! never another answer, another state or a slot less (GK1, GK3 to GK7).
#![cfg(not(loom))]

use std::time::Duration;

use proptest::prelude::*;
use seawall_engine::{
    Breaker, BreakerSettings, Permit, State, Time, Transition, Verdict, WindowSize,
};

const CASES: u32 = 500;
const OPERATIONS: usize = 2_000;
const TICK: u64 = 10;
const SLOW: u64 = 7;

/// Thresholds in quarters, times in milliseconds.
#[derive(Clone, Debug)]
struct Plan {
    calls: Option<u32>,
    min_calls: u32,
    failure_quarters: Option<u32>,
    slow_quarters: Option<u32>,
    failures: Option<u32>,
    consecutive: Option<u32>,
    open_for: u64,
    probes: u32,
    probe_successes: Option<u32>,
    probe_timeout: u64,
}

fn plans() -> impl Strategy<Value = Plan> {
    let thresholds = (
        prop::option::of(1u32..=4),
        prop::option::of(1u32..=4),
        prop::option::of(1u32..=6),
        prop::option::of(1u32..=6),
    );
    let window = (prop::option::of(6u32..=20), 1u32..=6);
    let half_open = (1u64..=40, 1u32..=5, prop::option::of(1u32..=5), 1u64..=40);
    (thresholds, window, half_open)
        .prop_filter(
            "something must open it",
            |((rate, slow, failures, row), ..)| {
                rate.is_some() || slow.is_some() || failures.is_some() || row.is_some()
            },
        )
        .prop_map(
            |((failure_quarters, slow_quarters, failures, consecutive), window, half)| Plan {
                calls: window.0,
                min_calls: window.1,
                failure_quarters,
                slow_quarters,
                failures,
                consecutive,
                open_for: half.0,
                probes: half.1,
                probe_successes: half.2.map(|needed| needed.min(half.1)),
                probe_timeout: half.3,
            },
        )
}

impl Plan {
    fn settings(&self) -> BreakerSettings {
        let quarters = |n: u32| f64::from(n) / 4.0;
        BreakerSettings {
            window: match self.calls {
                Some(calls) => WindowSize::Calls(calls),
                None => WindowSize::Time(Duration::from_millis(10 * TICK)),
            },
            min_calls: self.min_calls,
            failure_rate: self.failure_quarters.map(quarters),
            slow_call: self.slow_quarters.map(|_| Duration::from_millis(SLOW)),
            slow_rate: self.slow_quarters.map(quarters),
            failures: self.failures,
            consecutive: self.consecutive,
            open_for: Duration::from_millis(self.open_for),
            open_factor: 2.0,
            open_for_max: Duration::from_millis(200),
            open_jitter: 0.0,
            probes: self.probes,
            probe_successes: self.probe_successes,
            probe_timeout: Some(Duration::from_millis(self.probe_timeout)),
            ..BreakerSettings::default()
        }
    }
}

/// A call that the model keeps whole.
#[derive(Clone, Copy, Debug)]
struct Settled {
    at: u64,
    failed: bool,
    slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Issued {
    Closed { generation: u64 },
    Probe { generation: u64, lost_at: u64 },
    Nothing,
}

struct Model {
    plan: Plan,
    now: u64,
    state: State,
    generation: u64,
    until: u64,
    openings: u32,
    settled: Vec<Settled>,
    row: u32,
    /// Probes that are out: when each is lost.
    out: Vec<u64>,
    probed: Vec<Settled>,
    refused: u64,
}

impl Model {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            now: 0,
            state: State::Closed,
            generation: 0,
            until: 0,
            openings: 0,
            settled: Vec::new(),
            row: 0,
            out: Vec::new(),
            probed: Vec::new(),
            refused: 0,
        }
    }

    fn state(&self) -> State {
        if self.state == State::Open && self.now >= self.until {
            State::HalfOpen
        } else {
            self.state
        }
    }

    fn enter(&mut self, to: State) -> Transition {
        let transition = Transition {
            from: self.state,
            to,
        };
        self.state = to;
        self.generation += 1;
        self.settled.clear();
        self.row = 0;
        self.out.clear();
        self.probed.clear();
        match to {
            State::Open => {
                let grown = (0..self.openings.min(20)).fold(self.plan.open_for, |t, _| t * 2);
                self.until = self.now + grown.min(200);
                self.openings += 1;
            }
            State::HalfOpen => {}
            _ => self.openings = 0,
        }
        transition
    }

    fn force(&mut self, to: State) -> Option<Transition> {
        let transition = self.enter(to);
        (transition.from != to).then_some(transition)
    }

    fn window(&self) -> Vec<Settled> {
        match self.plan.calls {
            Some(calls) => {
                let from = self.settled.len().saturating_sub(calls as usize);
                self.settled[from..].to_vec()
            }
            None => {
                let oldest = (self.now / TICK).saturating_sub(9);
                self.settled
                    .iter()
                    .filter(|call| call.at / TICK >= oldest)
                    .copied()
                    .collect()
            }
        }
    }

    fn permit(&mut self) -> Result<(Issued, Option<Transition>), Option<u64>> {
        let mut transition = None;
        match self.state() {
            State::Closed => {
                return Ok((
                    Issued::Closed {
                        generation: self.generation,
                    },
                    None,
                ));
            }
            State::ForcedClosed => return Ok((Issued::Nothing, None)),
            State::ForcedOpen => {
                self.refused += 1;
                return Err(None);
            }
            State::Open => {
                self.refused += 1;
                return Err(Some(self.until - self.now));
            }
            State::HalfOpen => {
                if self.state == State::Open {
                    transition = Some(self.enter(State::HalfOpen));
                }
            }
        }
        let now = self.now;
        self.out.retain(|lost_at| now < *lost_at);
        if self.out.len() + self.probed.len() < self.plan.probes as usize {
            let lost_at = self.now + self.plan.probe_timeout;
            self.out.push(lost_at);
            return Ok((
                Issued::Probe {
                    generation: self.generation,
                    lost_at,
                },
                transition,
            ));
        }
        self.refused += 1;
        Err(Some(self.out.iter().min().unwrap() - self.now))
    }

    fn record(&mut self, issued: Issued, verdict: Verdict, slow: bool) -> Option<Transition> {
        let failed = verdict == Verdict::Failure;
        let slow = slow && self.plan.slow_quarters.is_some();
        let call = Settled {
            at: self.now,
            failed,
            slow,
        };
        match issued {
            Issued::Closed { generation } if generation == self.generation => {
                if verdict == Verdict::Neutral {
                    return None;
                }
                self.settled.push(call);
                self.row = if failed { self.row + 1 } else { 0 };
                let due = (failed || slow) && self.trips(failed);
                due.then(|| self.enter(State::Open))
            }
            Issued::Probe {
                generation,
                lost_at,
            } if generation == self.generation => {
                let held = self.out.iter().position(|out| *out == lost_at);
                if self.now >= lost_at {
                    return None;
                }
                self.out.remove(held.unwrap());
                if verdict == Verdict::Neutral {
                    return None;
                }
                self.probed.push(call);
                let left = self.plan.probes as usize - self.probed.len();
                let ending = |bad| {
                    let rest = Settled {
                        at: 0,
                        failed: bad,
                        slow: bad,
                    };
                    let mut all = self.probed.clone();
                    all.resize(all.len() + left, rest);
                    self.closes(&all)
                };
                match (ending(false), ending(true)) {
                    (false, _) => Some(self.enter(State::Open)),
                    (true, true) => Some(self.enter(State::Closed)),
                    (true, false) => None,
                }
            }
            _ => None,
        }
    }

    fn trips(&self, failed: bool) -> bool {
        let window = self.window();
        let failures = window.iter().filter(|call| call.failed).count() as u32;
        let slow = window.iter().filter(|call| call.slow).count() as u32;
        let calls = window.len() as u32;
        let enough = calls >= self.plan.min_calls;
        let reached = |part: u32, quarters: u32| part > 0 && part * 4 >= quarters * calls;
        failed && self.plan.consecutive.is_some_and(|row| self.row >= row)
            || self.plan.failures.is_some_and(|most| failures >= most)
            || enough
                && self
                    .plan
                    .failure_quarters
                    .is_some_and(|q| reached(failures, q))
            || enough && self.plan.slow_quarters.is_some_and(|q| reached(slow, q))
    }

    /// Whether a whole period of probes that went so closes the breaker.
    fn closes(&self, probes: &[Settled]) -> bool {
        let count = |which: fn(&Settled) -> bool| probes.iter().filter(|p| which(p)).count() as u32;
        if let Some(needed) = self.plan.probe_successes {
            return count(|probe| !probe.failed && !probe.slow) >= needed;
        }
        let all = probes.len() as u32;
        let by_number = self.plan.failures.is_some() || self.plan.consecutive.is_some();
        let failed = count(|probe| probe.failed);
        let well = match self.plan.failure_quarters {
            Some(quarters) => failed * 4 < quarters * all,
            None => !by_number || failed == 0,
        };
        well && self
            .plan
            .slow_quarters
            .is_none_or(|q| count(|probe| probe.slow) * 4 < q * all)
    }
}

fn run(plan: Plan, operations: &[u32]) {
    let breaker = Breaker::new(&plan.settings(), None, 1).unwrap();
    let mut model = Model::new(plan);
    let mut held: Vec<(Permit, Issued)> = Vec::new();
    // Mostly well or mostly not, in turns.
    for (n, operation) in operations.iter().enumerate() {
        let now = Time::from_nanos(model.now * 1_000_000);
        let (kind, which) = (operation % 100, (operation >> 8) as usize);
        match kind {
            0..40 => match (breaker.permit(now), model.permit()) {
                (Ok(admission), Ok((issued, transition))) => {
                    assert_eq!(admission.transition, transition);
                    let probe = matches!(issued, Issued::Probe { .. });
                    assert_eq!(admission.permit.is_probe(), probe);
                    held.push((admission.permit, issued));
                }
                (Err(refusal), Err(wait)) => {
                    assert_eq!(refusal.retry_in, wait.map(Duration::from_millis));
                }
                (ours, models) => panic!("{n}: {ours:?}, {models:?}"),
            },
            40..80 if !held.is_empty() => {
                let (permit, issued) = held.swap_remove(which % held.len());
                let ill = if n / 200 % 2 == 0 { 8 } else { 2 };
                let verdict = match which / 7 % 10 {
                    0 => Verdict::Neutral,
                    draw if draw < ill => Verdict::Failure,
                    _ => Verdict::Success,
                };
                let took = u64::from(operation >> 24) % 10;
                let slow = took > SLOW;
                let ours = breaker.record(permit, now, verdict, Duration::from_millis(took));
                assert_eq!(
                    ours,
                    model.record(issued, verdict, slow),
                    "{n}: {verdict:?} {slow}"
                );
            }
            80..84 if !held.is_empty() => {
                let (permit, issued) = held.swap_remove(which % held.len());
                breaker.release(permit);
                if let Issued::Probe {
                    lost_at,
                    generation,
                } = issued
                    && generation == model.generation
                    && let Some(at) = model.out.iter().position(|out| *out == lost_at)
                {
                    model.out.remove(at);
                }
            }
            // Forgotten: never given back at all.
            84 => drop(held.pop()),
            85..98 => model.now += which as u64 % 15,
            98 => model.now += which as u64 % 300,
            99 if which % 8 == 0 => {
                assert_eq!(breaker.force_open(), model.force(State::ForcedOpen))
            }
            99 if which % 8 == 1 => {
                assert_eq!(breaker.force_closed(), model.force(State::ForcedClosed));
            }
            99 if which % 8 < 5 => assert_eq!(breaker.reset(), model.force(State::Closed)),
            _ => {}
        }
        let now = Time::from_nanos(model.now * 1_000_000);
        assert_eq!(breaker.state(now), model.state(), "{n}");
        assert_eq!(breaker.refused(), model.refused, "{n}");
        if model.state == State::Closed {
            let (counts, window) = (breaker.counts(now), model.window());
            assert_eq!(counts.calls, window.len() as u64, "{n}");
            let failures = window.iter().filter(|call| call.failed).count();
            assert_eq!(counts.failures, failures as u64, "{n}");
        }
    }
    no_slot_leaked(&breaker, model, held);
}

/// With everything given back, a half-open breaker admits as many as its settled probes leave.
fn no_slot_leaked(breaker: &Breaker, mut model: Model, held: Vec<(Permit, Issued)>) {
    held.iter().for_each(|(permit, _)| breaker.release(*permit));
    if model.state() == State::HalfOpen {
        if model.state == State::Open {
            model.enter(State::HalfOpen);
        }
        let now = Time::from_nanos((model.now + model.plan.probe_timeout) * 1_000_000);
        let left = model.plan.probes as usize - model.probed.len();
        let admitted = (0..left + 3)
            .filter(|_| breaker.permit(now).is_ok())
            .count();
        assert_eq!(admitted, left);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn gk_a_million_random_operations_answer_as_the_model_does(
        plan in plans(),
        operations in prop::collection::vec(any::<u32>(), OPERATIONS),
    ) {
        run(plan, &operations);
    }
}
