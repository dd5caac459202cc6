//! Messages between clients and servers.

use super::{AT_SERVER, Attempt, Leg, REPLY, Reply, World};
use crate::chance::{LOSS, NETWORK, unit};
use crate::model::Messages;

impl World<'_> {
    /// An attempt's message leaves for the server. The place is `None` if it will never arrive.
    pub(super) fn dispatch(&mut self, mut attempt: Attempt) -> Option<u32> {
        let network = &self.model.network;
        let leg = if attempt.leg == Leg::Write { 2 } else { 0 };
        let number = u64::from(attempt.number);
        let mut at = self.now;
        if !network.delay.is_zero() {
            at += network.delay.sample(attempt.draws, NETWORK + leg, number);
        }
        if network.loss > 0.0 && unit(attempt.draws.draw(LOSS, number)) < network.loss {
            return None;
        }
        match self.outage() {
            Some((Messages::Lost, _)) => return None,
            Some((Messages::Refused, _)) => {
                attempt.result = Reply::Refused;
                let place = self.attempts.add(attempt);
                self.calendar.push(self.now, REPLY, place);
                return Some(place);
            }
            Some((Messages::Held, end)) => at = at.max(end),
            None => {}
        }
        let place = self.attempts.add(attempt);
        self.calendar.push(at, AT_SERVER, place);
        Some(place)
    }

    /// The server's word leaves for the client.
    pub(super) fn answer(&mut self, place: u32, result: Reply) {
        let network = &self.model.network;
        let attempt = &mut self.attempts[place];
        attempt.result = result;
        let leg = if attempt.leg == Leg::Read { 1 } else { 3 };
        let mut at = self.now;
        if !network.delay.is_zero() {
            at += network
                .delay
                .sample(attempt.draws, NETWORK + leg, u64::from(attempt.number));
        }
        match self.outage() {
            Some((Messages::Held, end)) => at = at.max(end),
            Some(_) => {
                self.lose(place);
                return;
            }
            None => {}
        }
        self.calendar.push(at, REPLY, place);
    }

    /// The answer never arrives: the client waits on, and only its place here is given up.
    fn lose(&mut self, place: u32) {
        let attempt = self.attempts[place];
        if !attempt.withdrawn {
            self.calls[attempt.call].flying.take(attempt.number);
        }
        self.attempts.free(place);
    }

    #[inline]
    fn outage(&self) -> Option<(Messages, u64)> {
        self.model.network.outages.iter().find_map(|outage| {
            let (from, to) = (outage.from.as_nanos() as u64, outage.to.as_nanos() as u64);
            (from <= self.now && self.now < to).then_some((outage.messages, to))
        })
    }
}
