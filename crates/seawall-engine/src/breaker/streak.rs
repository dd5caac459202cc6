use crate::sync::{AtomicU64, Line, Ordering};

/// Failures in a row (GK1): `generation:32 | failures:32`, so that a writer of an older generation
/// neither adds to a row nor ends one.
#[derive(Debug)]
pub(super) struct Streak {
    row: Line<AtomicU64>,
    limit: u32,
}

impl Streak {
    /// A row of `limit` opens the breaker; `u32::MAX` is no limit, and costs nothing.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            row: Line(AtomicU64::new(0)),
            limit,
        }
    }

    /// One more failure; true if that makes the row long enough.
    #[inline]
    pub(super) fn grows(&self, generation: u64) -> bool {
        if self.limit == u32::MAX {
            return false;
        }
        let mut seen = self.row.0.load(Ordering::Acquire);
        loop {
            let newer_by = ((seen >> 32) as u32).wrapping_sub(generation as u32) as i32;
            let row = match newer_by {
                0 => (seen as u32).saturating_add(1),
                ..0 => 1,
                _ => return false,
            };
            let next = word_of(generation, row);
            match self
                .row
                .0
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return row >= self.limit,
                Err(now) => seen = now,
            }
        }
    }

    /// A success.
    #[inline]
    pub(super) fn ends(&self, generation: u64) {
        if self.limit == u32::MAX {
            return;
        }
        let none = word_of(generation, 0);
        let mut seen = self.row.0.load(Ordering::Acquire);
        while seen > none && seen >> 32 == none >> 32 {
            match self
                .row
                .0
                .compare_exchange(seen, none, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[inline]
const fn word_of(generation: u64, row: u32) -> u64 {
    (generation as u32 as u64) << 32 | row as u64
}
