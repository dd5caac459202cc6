use super::rules::{BreakerRules, ProbeRules, Probed};
use crate::Time;

/// The probes of one half-open period (GK4): who holds a slot, until when, and how those that
/// settled went. Kept under the breaker's lock.
#[derive(Debug, Default)]
pub(super) struct Probes {
    last_serial: u64,
    leases: Vec<Lease>,
    pub(super) probed: Probed,
}

#[derive(Debug)]
struct Lease {
    serial: u64,
    until: Time,
}

impl Probes {
    /// A new period: whatever was out belongs to an older generation.
    pub(super) fn clear(&mut self) {
        self.leases.clear();
        self.probed = Probed::default();
    }

    /// A slot, named by a serial number that is never used again; or when the next one is free.
    pub(super) fn lease(&mut self, now: Time, rules: &BreakerRules) -> Result<u64, Time> {
        self.leases.retain(|lease| now < lease.until);
        let free_at = self.free_at(&rules.probes);
        if free_at != Time::ZERO {
            return Err(free_at);
        }
        self.last_serial += 1;
        let until = now.after(rules.probe_timeout);
        self.leases.push(Lease {
            serial: self.last_serial,
            until,
        });
        Ok(self.last_serial)
    }

    /// Gives a slot back: when it would have been lost, if it was held at all.
    pub(super) fn give_back(&mut self, serial: u64) -> Option<Time> {
        let at = self
            .leases
            .iter()
            .position(|lease| lease.serial == serial)?;
        Some(self.leases.swap_remove(at).until)
    }

    /// When a slot is free: at once ([`Time::ZERO`]), or when the first lease runs out.
    pub(super) fn free_at(&self, rules: &ProbeRules) -> Time {
        if (self.leases.len() as u64) + u64::from(self.probed.settled) < u64::from(rules.probes) {
            return Time::ZERO;
        }
        self.leases
            .iter()
            .map(|lease| lease.until)
            .min()
            .unwrap_or(Time::ZERO)
    }
}
