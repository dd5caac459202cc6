//! The queue of events: a calendar whose days hold about eight events each, whatever the load.
//!
//! Three shelves, by time: what comes up next is a small heap; the days ahead are unsorted lists;
//! what lies beyond the last day waits in one list, from which the next calendar is made. A day
//! that is crowded costs as a heap does, so a burst of events at one instant is no worse than in
//! any other queue. (R. Brown, "Calendar queues", CACM 31, 1988; Tang, Goh, Thng, "Ladder queue",
//! ACM TOMACS 15, 2005.)

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens when: its time, then its number, decide the order, so that two runs agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) kind: u8,
    pub(crate) index: u32,
}

const INDEX_BITS: u32 = 25;
const KIND_BITS: u32 = 3;
/// The most things of one kind that can have events at once.
pub(crate) const MOST_INDEX: u32 = (1 << INDEX_BITS) - 1;
const DAY: usize = 8;
const SMALL: usize = 64;
const MOST_DAYS: usize = 1 << 20;

/// Events in the order of (time, number).
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    /// Everything before `near_end`.
    near: BinaryHeap<Reverse<u128>>,
    near_end: u64,
    days: Vec<Vec<u128>>,
    /// How many of `days` the present calendar has.
    used: usize,
    next_day: usize,
    start: u64,
    shift: u32,
    /// Everything from `far_from` on.
    far: Vec<u128>,
    far_from: u64,
    number: u64,
    #[cfg(test)]
    len: usize,
}

impl Calendar {
    #[inline]
    pub(crate) fn push(&mut self, time: u64, kind: u8, index: u32) {
        debug_assert!(index <= MOST_INDEX && kind < 1 << KIND_BITS);
        self.number += 1;
        let low = (self.number << (INDEX_BITS + KIND_BITS))
            | (u64::from(kind) << INDEX_BITS)
            | u64::from(index);
        let key = (u128::from(time) << 64) | u128::from(low);
        #[cfg(test)]
        {
            self.len += 1;
        }
        if time < self.near_end {
            self.near.push(Reverse(key));
        } else if time < self.far_from {
            self.days[((time - self.start) >> self.shift) as usize].push(key);
        } else {
            self.far.push(key);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.near.is_empty() && !self.turn() {
            return None;
        }
        let Reverse(key) = self.near.pop()?;
        #[cfg(test)]
        {
            self.len -= 1;
        }
        let low = key as u64;
        Some(Event {
            time: (key >> 64) as u64,
            kind: ((low >> INDEX_BITS) & ((1 << KIND_BITS) - 1)) as u8,
            index: (low & u64::from(MOST_INDEX)) as u32,
        })
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes up the next day that has events. `false` when there is none.
    fn turn(&mut self) -> bool {
        loop {
            while self.next_day < self.used {
                let day = self.next_day;
                self.next_day += 1;
                self.near_end = if self.next_day == self.used {
                    self.far_from
                } else {
                    self.day_start(self.next_day)
                };
                if !self.days[day].is_empty() {
                    self.take(day);
                    return true;
                }
            }
            if self.far.is_empty() {
                return false;
            }
            if self.far.len() < SMALL {
                return self.take_all();
            }
            self.renew();
        }
    }

    /// When a day begins, at most the end of time.
    fn day_start(&self, day: usize) -> u64 {
        let since = (day as u128) << self.shift;
        u64::try_from(u128::from(self.start) + since).unwrap_or(u64::MAX)
    }

    fn take(&mut self, day: usize) {
        let mut heap = core::mem::take(&mut self.near).into_vec();
        heap.extend(self.days[day].drain(..).map(Reverse));
        self.near = BinaryHeap::from(heap);
    }

    /// So few that they need no calendar.
    fn take_all(&mut self) -> bool {
        let mut heap = core::mem::take(&mut self.near).into_vec();
        let last = self.far.iter().map(|key| (key >> 64) as u64).max();
        heap.extend(self.far.drain(..).map(Reverse));
        self.near = BinaryHeap::from(heap);
        self.near_end = last.unwrap_or_default().saturating_add(1);
        self.far_from = self.near_end;
        (self.used, self.next_day) = (0, 0);
        true
    }

    /// A new calendar over what lies ahead, its days as long as the nearer half of the events
    /// suggests: a few far ones do not stretch it.
    fn renew(&mut self) {
        let middle = self.far.len() / 2;
        let first = self.far.iter().min().map_or(0, |key| (key >> 64) as u64);
        let (_, median, _) = self.far.select_nth_unstable(middle);
        let spread = ((*median >> 64) as u64) - first;
        let day = (spread / (middle / DAY).max(1) as u64).max(1);
        self.shift = 63 - day.leading_zeros();
        self.used = (self.far.len() / (DAY / 4))
            .next_power_of_two()
            .clamp(SMALL, MOST_DAYS);
        if self.days.len() < self.used {
            self.days.resize_with(self.used, Vec::new);
        }
        self.start = first;
        self.near_end = first;
        self.next_day = 0;
        self.far_from = self.day_start(self.used).max(first.saturating_add(1));
        let (days, start, shift, end) = (&mut self.days, self.start, self.shift, self.far_from);
        self.far.retain(|key| {
            let time = (key >> 64) as u64;
            let stays = time >= end;
            if !stays {
                days[((time - start) >> shift) as usize].push(*key);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_engine::Draws;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_number() {
        let draws = Draws::new(3);
        for (n, spread) in [
            (10u64, 5u64),
            (5_000, 3),
            (5_000, 1 << 40),
            (3_000, u64::MAX >> 20),
        ] {
            let mut calendar = Calendar::default();
            let mut model = std::collections::BTreeSet::new();
            let (mut now, mut number) = (0, 0u64);
            for step in 0..n * 6 {
                if step % 3 != 2 && step < n * 4 {
                    let time = now + draws.draw(1, step) % spread;
                    calendar.push(time, 1, (number & 0xff_ffff) as u32);
                    model.insert((time, number));
                    number += 1;
                } else {
                    let expected = model.pop_first();
                    let got = calendar.pop();
                    assert_eq!(
                        got.map(|event| (event.time, u64::from(event.index))),
                        expected
                    );
                    now = got.map_or(now, |event| event.time);
                }
                assert_eq!(calendar.len(), model.len());
            }
        }
    }
}
