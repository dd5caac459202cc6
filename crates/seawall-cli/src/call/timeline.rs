use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use seawall::{ClientBuilder, Kind};

/// How many lines of a single call are shown; the report has them all.
const LINES: usize = 12;

/// What a person at a terminal sees while calls are under way: the attempts and waits of a single
/// call, or how far many have come. It is gone when they are over, and the report is there.
#[derive(Debug)]
pub(super) struct Timeline {
    bar: ProgressBar,
    lines: Arc<Mutex<Lines>>,
}

/// The lines of a single call.
#[derive(Debug)]
struct Lines {
    bar: ProgressBar,
    begun: Instant,
    shown: VecDeque<String>,
    /// When the attempt that has not ended was started.
    attempt: Option<Instant>,
}

impl Timeline {
    /// Of a single call, `title`, or of many.
    pub(super) fn new(title: String, count: u64) -> Self {
        let bar = if count == 1 {
            ProgressBar::new_spinner().with_style(style("{msg}\n{spinner} {prefix}"))
        } else {
            ProgressBar::new(count).with_style(style("{wide_bar} {pos} of {len} calls, {msg}"))
        };
        let lines = Lines {
            bar: bar.clone(),
            begun: Instant::now(),
            shown: VecDeque::from([title]),
            attempt: None,
        };
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            lines: Arc::new(Mutex::new(lines)),
        }
    }

    /// Follows the attempts of a single call.
    pub(super) fn watch(&self, builder: ClientBuilder) -> ClientBuilder {
        let (starts, ends) = (Arc::clone(&self.lines), Arc::clone(&self.lines));
        builder
            .on_attempt(move |request, attempt| {
                lock(&starts).started(attempt.number, attempt.kind);
                async move { Ok::<_, std::convert::Infallible>(request) }
            })
            .classify(move |seen| {
                let what = match (seen.status, seen.error) {
                    (Some(status), None) => status.to_string(),
                    _ => "no whole answer".to_owned(),
                };
                lock(&ends).ended(&what, seen.default.name());
                None
            })
    }

    /// So many calls are over, and so many of them went well.
    pub(super) fn ended(&self, ok: u64, calls: u64) {
        self.bar.set_position(calls);
        self.bar.set_message(format!("{} failed", calls - ok));
    }

    /// Writes something else to the terminal, without a mess.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Lines {
    fn started(&mut self, number: u32, kind: Kind) {
        let kind = match kind {
            Kind::First => "first",
            Kind::Retry => "retry",
            Kind::Hedge => "hedge",
        };
        // The end of an attempt that ran out of time is told to no classifier.
        if kind == "retry" && self.attempt.is_some() {
            self.add("no answer in time");
        }
        self.attempt = Some(Instant::now());
        self.add(&format!("attempt {number} ({kind})"));
        self.bar
            .set_prefix(format!("attempt {number} is under way"));
    }

    fn ended(&mut self, what: &str, outcome: &str) {
        let took = self
            .attempt
            .take()
            .map_or(Duration::ZERO, |at| at.elapsed());
        let took = took.as_secs_f64() * 1e3;
        self.add(&format!("{what} after {took:.1} ms: {outcome}"));
        self.bar.set_prefix("waiting");
    }

    fn add(&mut self, line: &str) {
        let at = self.begun.elapsed().as_secs_f64();
        self.shown.push_back(format!("{at:>9.3} s  {line}"));
        if self.shown.len() > LINES {
            // The title stays.
            self.shown.remove(1);
        }
        let all: Vec<&str> = self.shown.iter().map(String::as_str).collect();
        self.bar.set_message(all.join("\n"));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn lock(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}
