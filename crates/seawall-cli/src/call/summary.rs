use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use seawall::{KeyView, State, Time};

use super::ended::Ended;
use crate::exit::Exit;
use crate::terminal::say;

/// What many calls came to.
#[derive(Debug)]
pub(super) struct Summary {
    begun: Instant,
    ok: u64,
    attempts: u64,
    first_attempts: u64,
    latencies: Vec<Duration>,
    endings: BTreeMap<&'static str, u64>,
    exits: BTreeMap<u8, u64>,
    /// The failing call with the highest number.
    last_failing: Option<(u64, Exit)>,
    cancelled: bool,
    /// On the clock of the guards.
    ended_at: Time,
}

impl Summary {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            ok: 0,
            attempts: 0,
            first_attempts: 0,
            latencies: Vec::new(),
            endings: BTreeMap::new(),
            exits: BTreeMap::new(),
            last_failing: None,
            cancelled: false,
            ended_at: Time::ZERO,
        }
    }

    pub(super) fn add(&mut self, ended: &Ended) {
        let report = ended.report();
        let sent = u64::from(report.attempts_sent());
        self.attempts += sent;
        self.first_attempts += sent.min(1);
        self.latencies.push(report.elapsed());
        self.ended_at = self.ended_at.max(report.started().after(report.elapsed()));
        let ending = report.ending().map_or("permanent", |ending| ending.name());
        *self.endings.entry(ending).or_default() += 1;
        self.cancelled |= ending == "cancelled";
        let exit = ended.exit();
        if exit == Exit::SUCCESS {
            self.ok += 1;
            return;
        }
        *self.exits.entry(exit.code()).or_default() += 1;
        if self
            .last_failing
            .is_none_or(|(number, _)| number < ended.number)
        {
            self.last_failing = Some((ended.number, exit));
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// True when a call was given up.
    pub(super) fn cancelled(&self) -> bool {
        self.cancelled
    }

    /// 0 if all were 0, else the code of the highest-numbered failing call.
    pub(super) fn exit(&self) -> Exit {
        self.last_failing.map_or(Exit::SUCCESS, |(_, exit)| exit)
    }

    /// When the last of the calls ended.
    pub(super) fn ended_at(&self) -> Time {
        self.ended_at
    }

    pub(super) fn ok(&self) -> u64 {
        self.ok
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls();
        let failed = calls - self.ok;
        write!(
            f,
            "{calls} calls in {:.2} s: {} ok, {failed} failed",
            self.begun.elapsed().as_secs_f64(),
            self.ok
        )?;
        for (at, (code, count)) in self.exits.iter().enumerate() {
            let separator = if at == 0 { " (" } else { ", " };
            write!(f, "{separator}{count} with exit code {code}")?;
        }
        if !self.exits.is_empty() {
            f.write_str(")")?;
        }
        let extra = self.attempts - self.first_attempts;
        let share = 100.0 * extra as f64 / (self.attempts.max(1)) as f64;
        write!(
            f,
            "\n{} attempts, {extra} of them retries and hedges ({share:.1} %)",
            self.attempts
        )?;
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        write!(
            f,
            "\nlatency with retries: p50 {:.1} ms, p99 {:.1} ms\nendings:",
            millis(quantile(&sorted, 0.50)),
            millis(quantile(&sorted, 0.99)),
        )?;
        for (at, (ending, count)) in self.endings.iter().enumerate() {
            let separator = if at == 0 { " " } else { ", " };
            write!(f, "{separator}{ending} {count}")?;
        }
        Ok(())
    }
}

/// A breaker that did something, and where it stands.
pub(super) fn say_breakers(view: &KeyView) {
    for breaker in &view.breakers {
        if breaker.opened == 0 && breaker.refused == 0 {
            continue;
        }
        let state = match breaker.state {
            State::Closed => "closed",
            State::Open => "open",
            State::HalfOpen => "half open",
            State::ForcedOpen => "forced open",
            State::ForcedClosed => "forced closed",
        };
        say(format_args!(
            "breaker of {}: {state}, opened {} times, refused {} attempts",
            view.key, breaker.opened, breaker.refused
        ));
    }
}

/// The nearest rank.
fn quantile(sorted: &[Duration], quantile: f64) -> Duration {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
