//! When the next call of an open fleet begins, and whose it is.

use seawall_engine::Draws;

use crate::chance::{GAP, PICK, THIN, choice, unit};
use crate::model::{Arrivals, Rate};

/// Draws the arrivals of an open fleet one after the other.
#[derive(Debug)]
pub(super) struct Source {
    draws: Draws,
    clients: u32,
    /// Candidates drawn so far.
    drawn: u64,
    arrived: u64,
}

impl Source {
    pub(super) fn new(draws: Draws, clients: u32) -> Self {
        Self {
            draws,
            clients,
            drawn: 0,
            arrived: 0,
        }
    }

    /// The moment of the next arrival after `now`; `None` when there is no further one.
    pub(super) fn next(&mut self, arrivals: &Arrivals, now: u64, end: u64) -> Option<u64> {
        let at = match arrivals {
            Arrivals::Poisson { rate } => self.poisson(rate, now, end)?,
            Arrivals::Even {
                rate: Rate::Always(rate),
            } => ((self.arrived as f64 + 0.5) * 1e9 / rate) as u64,
            Arrivals::Even { rate } => even(rate, now, end)?,
            Arrivals::Trace { at, .. } => at.get(self.arrived as usize)?.as_nanos() as u64,
            Arrivals::Closed { .. } | Arrivals::Serial { .. } | Arrivals::Once => return None,
        };
        self.arrived += 1;
        (at < end).then_some(at)
    }

    /// Whose the arrival is that came last.
    pub(super) fn client(&self) -> u32 {
        if self.clients == 1 {
            return 0;
        }
        choice(self.draws.draw(PICK, self.arrived), self.clients as usize) as u32
    }

    /// By thinning (Lewis, Shedler, 1979): candidates at the highest rate, of which the present
    /// rate's share is taken.
    fn poisson(&mut self, rate: &Rate, now: u64, end: u64) -> Option<u64> {
        let most = rate.most();
        let mut at = now as f64;
        loop {
            self.drawn += 1;
            at -= libm::log(unit(self.draws.draw(GAP, self.drawn))) / most * 1e9;
            if at >= end as f64 {
                return None;
            }
            let taken = match rate {
                Rate::Always(_) => true,
                varying => unit(self.draws.draw(THIN, self.drawn)) * most < varying.at(at / 1e9),
            };
            if taken {
                return Some(at as u64);
            }
        }
    }
}

/// One after each even distance; where the rate is zero, when it is no longer.
fn even(rate: &Rate, now: u64, end: u64) -> Option<u64> {
    let mut at = now;
    loop {
        let present = rate.at(at as f64 / 1e9);
        if present > 0.0 {
            return Some(at + (1e9 / present).round().max(1.0) as u64);
        }
        at += 1_000_000;
        if at >= end {
            return None;
        }
    }
}
