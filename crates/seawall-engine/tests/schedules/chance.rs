//! Random policies, requests and outcomes, all from one seed.

use std::cell::Cell;
use std::time::Duration;

use seawall_engine::{
    Backoff, Draws, HedgeSettings, Hint, Jitter, Note, Outcome, Over, Phase, Policy, Request,
    RetryAfter, Settled, Share, Size,
};

pub(crate) struct Chance {
    draws: Draws,
    made: Cell<u64>,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            draws: Draws::new(seed),
            made: Cell::new(0),
        }
    }

    /// Uniform in `0..below`.
    pub(crate) fn below(&self, below: u64) -> u64 {
        self.made.set(self.made.get() + 1);
        self.draws.draw(0, self.made.get()) % below
    }

    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one<T: Clone>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    /// Up to `most`, often at an end.
    pub(crate) fn up_to(&self, most: Duration) -> Duration {
        let most = most.as_nanos().min(u64::MAX.into()) as u64;
        Duration::from_nanos(match self.below(4) {
            0 => 0,
            1 => most,
            _ => self.below(most.max(1)),
        })
    }

    pub(crate) fn policy(&self) -> Policy {
        loop {
            // What cannot be is refused at build; another is drawn then.
            if let Ok(policy) = self.builder().build() {
                return policy;
            }
        }
    }

    fn builder(&self) -> seawall_engine::PolicyBuilder {
        let secs = Duration::from_secs;
        let millis = Duration::from_millis;
        let delay = self.up_to(secs(3));
        let backoff = self.one(&[
            Backoff::none(),
            Backoff::fixed(delay),
            Backoff::linear(delay, self.up_to(secs(1))),
            Backoff::exponential(delay).jitter(Jitter::Equal),
            Backoff::exponential(delay).jitter(Jitter::Proportional(0.5)),
            Backoff::decorrelated(delay),
        ]);
        let retry_after = RetryAfter {
            honor: self.percent(90),
            max: self.one(&[secs(60), self.up_to(secs(20))]),
            over: self.one(&[Over::End, Over::Cap]),
            share: self.one(&[Share::Off, Share::Retries, Share::All]),
        };
        let delay = self.up_to(secs(1));
        let hedge = self.one(&[
            None,
            Some(HedgeSettings::after(delay)),
            Some(HedgeSettings::at_quantile(0.9).initial_delay(delay)),
        ]);
        let policy = Policy::builder()
            .deadline(self.one(&[None, Some(secs(30)), Some(millis(1 + self.below(20_000)))]))
            .attempt_timeout(self.one(&[None, Some(secs(10)), Some(millis(1 + self.below(5000)))]))
            .min_attempt(self.one(&[Duration::ZERO, millis(1), self.up_to(millis(100))]))
            .retry_unsafe_methods(self.percent(10))
            .replay_limit(Size::kib(1))
            .backoff(backoff)
            .retry_after(retry_after)
            .hedge(hedge.map(|hedge| hedge.max(1 + self.below(3) as u32)));
        match self.below(8) {
            0 => policy.unlimited_attempts(),
            1 => policy.max_attempts(40),
            _ => policy.max_attempts(1 + self.below(6) as u32),
        }
    }

    pub(crate) fn request(&self) -> Request {
        Request {
            idempotent: self.percent(85),
            replayable: self.percent(95),
            nested: self.percent(3),
            concurrent: self.percent(95),
        }
    }

    pub(crate) fn settled(&self) -> Settled {
        let phase = self.one(&[Phase::Unprocessed, Phase::Ambiguous]);
        let outcome = match self.below(20) {
            0 => Outcome::Success,
            1 => Outcome::Permanent,
            3..=6 => Outcome::Throttled(phase),
            _ => Outcome::Transient(phase),
        };
        let most = Duration::from_secs(self.one(&[1, 25]));
        let wait = self.percent(20).then(|| self.up_to(most));
        Settled {
            answered: self.percent(50),
            held: self.percent(30),
            replayable: self.percent(97),
            write_failed: self.percent(5),
            hint: Hint {
                wait,
                forbids: self.percent(2),
                shared: self.percent(50),
            },
            note: self.one(&[Note::None, Note::Status(503), Note::Error("reset".into())]),
            ..Settled::new(outcome)
        }
    }
}
