//! Guards whose numbers do not go together: refused where they cannot work, warned about where
//! they are probably not meant (P1, P4).

use std::string::String;
use std::vec::Vec;

use super::{MaxAttempts, Settings};
use crate::guards::HEDGE_AT_LEAST;
use crate::{Invalid, duration};

impl Settings {
    /// Checks the guards, each by itself and all together.
    pub(super) fn validate_guards(&self) -> Result<(), Invalid> {
        if let Some(breaker) = &self.breaker {
            breaker.validate().map_err(|e| e.within("breaker"))?;
        }
        if let Some(throttle) = &self.throttle {
            throttle.validate().map_err(|e| e.within("throttle"))?;
        }
        if let Some(limiter) = &self.limiter {
            limiter.validate().map_err(|e| e.within("limiter"))?;
        }
        if let Some(bulkhead) = &self.bulkhead {
            bulkhead.validate().map_err(|e| e.within("bulkhead"))?;
        }
        self.validate_hedges()
    }

    fn validate_hedges(&self) -> Result<(), Invalid> {
        let Some(hedge) = &self.hedge else {
            return Ok(());
        };
        if self.max_attempts.limit() == 1 {
            return Err(Invalid::new(
                "max_attempts",
                1,
                "at least 2 where there is a hedge, which is an attempt too",
            ));
        }
        if let Some(bulkhead) = &self.bulkhead
            && bulkhead.max_concurrent == 1
        {
            return Err(Invalid::new(
                "bulkhead.max_concurrent",
                1,
                "at least 2 where there is a hedge, which needs a place beside the first attempt",
            ));
        }
        for (name, limit) in [
            ("attempt_timeout", self.attempt_timeout),
            ("deadline", self.deadline),
        ] {
            let Some(limit) = limit else { continue };
            let delays = [
                ("hedge.delay", hedge.fixed_delay()),
                ("hedge.initial_delay", hedge.initial_delay),
            ];
            for (field, delay) in delays {
                if let Some(delay) = delay.filter(|delay| *delay >= limit) {
                    return Err(Invalid::new(
                        field,
                        duration::format(delay),
                        format!("shorter than {name}: no hedge would ever be sent"),
                    ));
                }
            }
            if hedge.fixed_delay().is_none() && HEDGE_AT_LEAST >= limit {
                let allowed = format!(
                    "longer than {}, the least delay of a hedge",
                    duration::format(HEDGE_AT_LEAST)
                );
                return Err(Invalid::new(name, duration::format(limit), allowed));
            }
        }
        Ok(())
    }

    pub(super) fn warn_of_guards(&self, warnings: &mut Vec<String>) {
        let mut warn = |warning: &str| warnings.push(warning.into());
        if let (Some(hedge), MaxAttempts::Limited(most)) = (&self.hedge, self.max_attempts)
            && hedge.max >= most.get()
        {
            warn("hedge.max leaves no room in max_attempts: not all hedges can be sent");
        }
        if let Some(hedge) = &self.hedge
            && hedge.fixed_delay().is_some()
            && hedge.initial_delay.is_some()
        {
            warn("hedge.initial_delay plays no part where hedge.delay is fixed");
        }
        if let Some(breaker) = &self.breaker {
            if let Some(timeout) = self.attempt_timeout {
                if breaker.slow_call.is_some_and(|slow| slow >= timeout) {
                    warn("breaker.slow_call is not below attempt_timeout: no answer is ever slow");
                }
                if breaker.average.is_some_and(|average| average >= timeout) {
                    warn("breaker.average is not below attempt_timeout: only timeouts reach it");
                }
                if breaker.probe_timeout.is_some_and(|probe| probe < timeout) {
                    warn(
                        "breaker.probe_timeout is below attempt_timeout: a probe loses its slot \
                         while it may still be answered",
                    );
                }
            }
            let alone = breaker.consecutive.into_iter().chain(breaker.failures);
            if alone.min().is_some_and(|k| k < self.max_attempts.limit()) {
                warn(
                    "breaker opens at fewer failures than max_attempts: one call alone can open it",
                );
            }
        }
        if let (Some(limiter), Some(deadline)) = (&self.limiter, self.deadline)
            && limiter.wait
            && limiter.rate.recip() >= deadline.as_secs_f64()
        {
            warn(
                "limiter.rate lets one attempt through in longer than the deadline: waiting for a \
                 turn never fits",
            );
        }
    }
}
