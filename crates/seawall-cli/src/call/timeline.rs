use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use seawall::{ClientBuilder, Kind};

/// What a person at a terminal sees while calls are under way: the attempts and waits of a single
/// call, or how far many have come.
#[derive(Debug)]
pub(super) struct Timeline {
    bar: ProgressBar,
    begun: Instant,
}

impl Timeline {
    pub(super) fn new(count: u64) -> Self {
        let bar = if count == 1 {
            ProgressBar::new_spinner().with_style(style("{spinner} {msg}, {elapsed}"))
        } else {
            ProgressBar::new(count).with_style(style("{wide_bar} {pos} of {len} calls, {msg}"))
        };
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            begun: Instant::now(),
        }
    }

    /// Follows the attempts of a single call.
    pub(super) fn watch(&self, builder: ClientBuilder) -> ClientBuilder {
        let begun = self.begun;
        let (bar, ending) = (self.bar.clone(), self.bar.clone());
        let started = Arc::new(Mutex::new(None::<Instant>));
        let last = Arc::clone(&started);
        builder
            .on_attempt(move |request, attempt| {
                let kind = match attempt.kind {
                    Kind::First => "first",
                    Kind::Retry => "retry",
                    Kind::Hedge => "hedge",
                };
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if attempt.kind == Kind::Retry && last.is_some() {
                    bar.println(format!("{}  no answer in time", at(begun)));
                }
                *last = Some(Instant::now());
                bar.println(format!(
                    "{}  attempt {} ({kind})",
                    at(begun),
                    attempt.number
                ));
                bar.set_message(format!("attempt {}", attempt.number));
                async move { Ok::<_, std::convert::Infallible>(request) }
            })
            .classify(move |seen| {
                let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
                let took = started.take().map_or(Duration::ZERO, |at| at.elapsed());
                let what = match (seen.status, seen.error) {
                    (Some(status), None) => status.to_string(),
                    (_, _) => "no whole answer".to_owned(),
                };
                ending.println(format!(
                    "{}  {what} after {:.1} ms: {}",
                    at(begun),
                    took.as_secs_f64() * 1e3,
                    seen.default.name()
                ));
                ending.set_message("waiting");
                None
            })
    }

    /// So many calls are over, and so many of them went well.
    pub(super) fn ended(&self, ok: u64, calls: u64) {
        self.bar.set_position(calls);
        self.bar.set_message(format!("{} failed", calls - ok));
    }

    /// Writes something else to the terminal, without a mess.
    pub(super) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn at(begun: Instant) -> String {
    format!("{:>8.3} s", begun.elapsed().as_secs_f64())
}
