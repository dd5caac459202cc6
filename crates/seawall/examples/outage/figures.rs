//! What the server saw, summed up.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Process;
use crate::server::SLOT;

/// Of the answers a second before the outage, how much is all.
const FULL: f64 = 0.95;

/// Slots that are looked at together, as one alone is too few calls.
const TOGETHER: usize = 3;

pub(crate) struct Figures {
    /// Requests a second that came before the outage.
    before: f64,
    /// How many came during the outage.
    during: u64,
    /// The most that came in a second of it.
    peak: u64,
    outage: Duration,
    /// From the end of the outage until as much was answered well as before it; `None` if it was
    /// not waited for that long.
    recovered: Option<Duration>,
}

impl Figures {
    /// Watches the server until it answers as much as before its outage.
    pub(crate) async fn once_recovered(
        server: &Process,
        patience: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let began = Instant::now();
        loop {
            tokio::time::sleep(SLOT).await;
            let figures = Self::of(&server.counts().await?).ok_or("counts without their marks")?;
            if figures.recovered.is_some() || began.elapsed() > patience {
                return Ok(figures);
            }
        }
    }

    fn of(counts: &Value) -> Option<Self> {
        let slots: Vec<(u64, u64)> = counts["slots"]
            .as_array()?
            .iter()
            .map(|slot| Some((slot[0].as_u64()?, slot[1].as_u64()?)))
            .collect::<Option<_>>()?;
        let mark = |name: &str| {
            let marks = counts["marks"].as_array()?.iter();
            let found = marks.rev().find(|mark| mark[1] == name)?;
            found[0].as_u64()
        };
        let slot = |millis: u64| (millis / SLOT.as_millis() as u64) as usize;
        let (measured, fails, works) = (mark("measured")?, mark("fails")?, mark("works")?);
        let healthy = &slots[slot(measured) + 1..slot(fails)];
        let good: u64 = healthy.iter().map(|slot| slot.1).sum();
        let per_slot = good as f64 / healthy.len() as f64;
        let during = &slots[slot(fails)..=slot(works)];
        let second = (1000 / SLOT.as_millis()) as usize;
        let sums = during.windows(second.min(during.len()));
        // The last slot is not over yet.
        let after = &slots[slot(works)..slots.len() - 1];
        let full = after.windows(TOGETHER).position(|some| {
            let good: u64 = some.iter().map(|slot| slot.1).sum();
            good as f64 >= FULL * per_slot * TOGETHER as f64
        });
        let began = |n: usize| (slot(works) + n) as u64 * SLOT.as_millis() as u64;
        Some(Self {
            before: per_slot * second as f64,
            during: during.iter().map(|slot| slot.0).sum(),
            peak: sums
                .map(|some| some.iter().map(|slot| slot.0).sum())
                .max()?,
            outage: Duration::from_millis(works - fails),
            recovered: full.map(|n| Duration::from_millis(began(n).saturating_sub(works))),
        })
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::json!({
            "policy": name,
            "before_per_second": self.before,
            "outage_ms": self.outage.as_millis() as u64,
            "requests_during": self.during,
            "peak_per_second": self.peak,
            "recovered_ms": self.recovered.map(|after| after.as_millis() as u64),
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} answers a second before; {} requests in an outage of {:.1} s, {} in its worst \
             second; ",
            self.before,
            self.during,
            self.outage.as_secs_f64(),
            self.peak
        )?;
        match self.recovered {
            Some(after) => write!(f, "all as before {:.1} s after it", after.as_secs_f64()),
            None => f.write_str("not as before in the time that was waited"),
        }
    }
}
