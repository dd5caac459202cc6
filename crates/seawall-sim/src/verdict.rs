//! What the numbers mean, in sentences: amplification, recovery, and what would help.

use crate::experiment::CaseOutcome;
use crate::formulas;
use crate::model::{Arrivals, Model, Order, Server};
use crate::scenario::Case;

/// The sentences of a case.
pub(crate) fn verdict(case: &Case, outcome: &CaseOutcome) -> Vec<String> {
    let (Some(model), Some(crew)) = (case.model(), case.crew()) else {
        return Vec::new();
    };
    let mut words = Vec::new();
    amplification(outcome, &mut words);
    if let Some((_, end)) = model.trigger() {
        recovery(outcome, end.as_secs_f64(), &mut words);
        if let Some(analysis) = Loop::of(model, crew.policy(0)) {
            analysis.explain(outcome, &mut words);
        }
    }
    words
}

fn amplification(outcome: &CaseOutcome, words: &mut Vec<String>) {
    let (Some(load), Some(success)) = (
        outcome.value("load_per_call"),
        outcome.value("success_ratio"),
    ) else {
        return;
    };
    words.push(format!(
        "Each call made {load:.3} attempts on average; {:.1} % of the calls succeeded.",
        success * 100.0
    ));
}

fn recovery(outcome: &CaseOutcome, end: f64, words: &mut Vec<String>) {
    let collapsed = outcome.value("metastable").unwrap_or(0.0);
    if outcome.runs > 1 && collapsed > 0.0 && collapsed < 1.0 {
        words.push(format!(
            "{:.0} % of {} runs did not come back.",
            collapsed * 100.0,
            outcome.runs
        ));
    } else if collapsed == 1.0 {
        let tail = outcome.value("goodput_tail_ratio").unwrap_or(0.0);
        words.push(format!(
            "Metastable: the trigger is over, the load is below what the server can do, and only \
             {:.0} % of the calls succeed.",
            tail * 100.0
        ));
    } else {
        match outcome.value("recovery_s") {
            Some(0.0) => words.push("Back as soon as the trigger was over.".into()),
            Some(seconds) => words.push(format!("Back {seconds:.0} s after the trigger was over.")),
            None if outcome.value("time_ms").is_some_and(|ms| ms < end * 1e3) => {
                words.push("The trigger was not over within the time that was watched.".into());
            }
            None if outcome.value("held_back").is_some_and(|share| share > 0.0) => {
                words.push(
                    "Not back within the time that was watched: the clients' own guards still \
                     refuse most calls, though nothing is overloaded."
                        .into(),
                );
            }
            None => words.push("Not back within the time that was watched.".into()),
        }
    }
}

/// The loop of timeouts and retries at a server first come first served (SIMULATION, formula 4).
struct Loop {
    load: f64,
    mu: f64,
    attempts: f64,
    timeout: f64,
    budget: Option<f64>,
    guarded: Option<&'static str>,
}

impl Loop {
    fn of(model: &Model, policy: &seawall_engine::Policy) -> Option<Self> {
        let [server] = model.servers.as_slice() else {
            return None;
        };
        // Work that takes no time never waits, and has no formula.
        let mu =
            Some(f64::from(server.workers?) / server.service.mean()).filter(|mu| mu.is_finite())?;
        let timeout = policy.attempt_timeout?.as_secs_f64();
        let load: f64 = model
            .fleets
            .iter()
            .filter_map(|fleet| match fleet.arrivals.as_ref()? {
                Arrivals::Poisson { rate } | Arrivals::Even { rate } => {
                    Some(rate.at(model.duration.as_secs_f64()))
                }
                other => other.most(),
            })
            .sum();
        let budget = policy.budget.as_ref().and_then(|budget| match budget.kind {
            seawall_engine::BudgetKind::Ratio { ratio, .. } => Some(ratio),
            _ => None,
        });
        Some(Self {
            load,
            mu,
            attempts: f64::from(policy.max_attempts.limit().min(1_000)),
            timeout,
            budget,
            guarded: guarded(server, mu, timeout, policy.breaker.is_some()),
        })
    }

    fn explain(&self, outcome: &CaseOutcome, words: &mut Vec<String>) {
        let Self {
            load,
            mu,
            attempts,
            timeout,
            ..
        } = *self;
        let hidden = formulas::hidden_capacity(mu, attempts, self.budget);
        let most = mu / hidden;
        if let Some(guard) = self.guarded {
            words.push(format!(
                "{guard}, so that work nobody waits for does not hold the server."
            ));
            return;
        }
        let collapsed = outcome.value("metastable").unwrap_or(0.0) > 0.0;
        if load > hidden && load < mu {
            words.push(format!(
                "Why: once the wait exceeds the timeout of {timeout} s every answer comes too late, \
                 and {load:.0}/s become {:.0}/s, more than the {mu:.0}/s that the server can do. \
                 The hidden capacity is µ/{most:.2} = {hidden:.0}/s; you run at {:.0} % of µ, \
                 which is protected below {:.0} %.",
                load * most,
                load / mu * 100.0,
                hidden / mu * 100.0
            ));
        } else if load <= hidden {
            words.push(format!(
                "{load:.0}/s with {most:.2} attempts each are at most {:.0}/s, below the {mu:.0}/s \
                 of the server: a backlog always drains.",
                load * most
            ));
        }
        if collapsed {
            words.push(self.cures());
        }
    }

    fn cures(&self) -> String {
        let Self {
            load, mu, timeout, ..
        } = *self;
        let room = mu / load - 1.0;
        let budget = if room > 0.001 {
            format!(
                "a retry budget below {:.1} % of the calls (a 10 % budget protects below 91 % \
                 utilisation; you run at {:.0} %)",
                room * 100.0,
                load / mu * 100.0
            )
        } else {
            "fewer calls (no budget helps at full load)".into()
        };
        format!(
            "What would cure it: {budget}; a breaker; a queue bound below µ·timeout = {:.0}; \
             dropping requests whose client has left; newest first.",
            mu * timeout
        )
    }
}

fn guarded(server: &Server, mu: f64, timeout: f64, breaker: bool) -> Option<&'static str> {
    if server.queue.drop_expired {
        Some("The server drops requests whose client has left")
    } else if server.queue.order == Order::Lifo {
        Some("The newest request goes first")
    } else if server
        .queue
        .bound
        .is_some_and(|bound| f64::from(bound) < mu * timeout)
    {
        Some("The queue is shorter than µ times the timeout")
    } else if breaker {
        Some("The breaker stops calls while most of them fail")
    } else {
        None
    }
}
