//! Counters over a window of time that slides in ticks.

use std::array;
use std::cell::Cell;
use std::sync::OnceLock;

use crate::sync::{AtomicU64, Line, Ordering};

/// A ring of counters, one per tick of time, each tagged with the tick it counts.
///
/// A cell is `epoch:32 | count:32`, and one compare-and-swap moves both: nothing is lost between
/// a bucket's rotation and its first count, and no count lands in the wrong bucket. A cell of a
/// later epoch drops a late writer. More cells than a window has ticks, so that a writer or reader
/// that was descheduled for a few ticks still finds its own.
#[derive(Debug)]
pub(crate) struct Ring<const CELLS: usize> {
    cells: [AtomicU64; CELLS],
}

/// A [`Ring`] that every thread may write at once: after the first collision each thread gets a
/// line of its own, so that a success costs the same at any number of threads.
#[derive(Debug)]
pub(crate) struct Striped<const CELLS: usize> {
    first: Ring<CELLS>,
    stripes: OnceLock<Box<[Line<Ring<CELLS>>]>>,
}

/// How far a tag may lie ahead and still be a later tick rather than one from before the 32 bits
/// wrapped round.
const AHEAD: u32 = 1 << 16;
const STRIPES: usize = 8;
const EMPTY: u64 = 0;

impl<const CELLS: usize> Ring<CELLS> {
    pub(crate) fn new() -> Self {
        Self {
            cells: array::from_fn(|_| AtomicU64::new(EMPTY)),
        }
    }

    /// Adds `amount` to the count of `epoch`, saturating. True if another thread got in between.
    #[inline]
    pub(crate) fn add(&self, epoch: u32, amount: u32) -> bool {
        let cell = &self.cells[epoch as usize % CELLS];
        let mut seen = cell.load(Ordering::Relaxed);
        let mut contended = false;
        loop {
            let tag = tag_of(seen);
            let count = if tag == epoch {
                count_of(seen).saturating_add(amount)
            } else if is_later(tag, epoch) && seen != EMPTY {
                return contended;
            } else {
                amount
            };
            match cell.compare_exchange(
                seen,
                cell_of(epoch, count),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return contended,
                Err(now) => (seen, contended) = (now, true),
            }
        }
    }

    /// The count of `epoch`.
    #[inline]
    pub(crate) fn at(&self, epoch: u32) -> u32 {
        let seen = self.cells[epoch as usize % CELLS].load(Ordering::Acquire);
        if tag_of(seen) == epoch {
            count_of(seen)
        } else {
            0
        }
    }

    /// The counts of the `ticks` epochs that end with `newest`, added up.
    #[inline]
    pub(crate) fn sum(&self, newest: u32, ticks: u32) -> u64 {
        (0..ticks)
            .map(|back| u64::from(self.at(newest.wrapping_sub(back))))
            .sum()
    }

    /// The latest epoch that anything was counted in, if it is later than `than`.
    pub(crate) fn newest(&self, than: u32) -> u32 {
        self.cells
            .iter()
            .map(|cell| tag_of(cell.load(Ordering::Acquire)))
            .fold(
                than,
                |newest, tag| if is_later(tag, newest) { tag } else { newest },
            )
    }
}

impl<const CELLS: usize> Striped<CELLS> {
    pub(crate) fn new() -> Self {
        Self {
            first: Ring::new(),
            stripes: OnceLock::new(),
        }
    }

    #[inline]
    pub(crate) fn add(&self, epoch: u32, amount: u32) {
        match self.stripes.get() {
            Some(stripes) => {
                stripes[stripe() % STRIPES].0.add(epoch, amount);
            }
            None if self.first.add(epoch, amount) => self.widen(),
            None => {}
        }
    }

    pub(crate) fn sum(&self, newest: u32, ticks: u32) -> u64 {
        self.rings().map(|ring| ring.sum(newest, ticks)).sum()
    }

    pub(crate) fn newest(&self, than: u32) -> u32 {
        self.rings().fold(than, |newest, ring| ring.newest(newest))
    }

    fn rings(&self) -> impl Iterator<Item = &Ring<CELLS>> {
        let stripes = self.stripes.get().map_or(&[][..], |stripes| stripes);
        std::iter::once(&self.first).chain(stripes.iter().map(|line| &line.0))
    }

    #[cold]
    fn widen(&self) {
        // One ring is enough where loom takes the threads' steps one at a time.
        if !cfg!(loom) {
            self.stripes
                .get_or_init(|| (0..STRIPES).map(|_| Line(Ring::new())).collect());
        }
    }
}

/// The number of the running thread, counted from the first that asked.
#[inline]
fn stripe() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

#[inline]
const fn cell_of(epoch: u32, count: u32) -> u64 {
    (epoch as u64) << 32 | count as u64
}

#[inline]
const fn tag_of(cell: u64) -> u32 {
    (cell >> 32) as u32
}

#[inline]
const fn count_of(cell: u64) -> u32 {
    cell as u32
}

#[inline]
const fn is_later(tag: u32, epoch: u32) -> bool {
    let ahead = tag.wrapping_sub(epoch);
    ahead != 0 && ahead < AHEAD
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn gk1_a_late_writer_changes_no_later_bucket() {
        let ring = Ring::<16>::new();
        ring.add(20, 1);
        ring.add(4, 1);
        assert_eq!((ring.at(20), ring.at(4)), (1, 0));
        assert_eq!(ring.newest(7), 20);
        assert_eq!(ring.newest(21), 21);
    }

    #[test]
    fn gk1_counts_saturate_and_epochs_wrap() {
        let ring = Ring::<16>::new();
        ring.add(u32::MAX, u32::MAX);
        ring.add(u32::MAX, 1);
        ring.add(0, 2);
        assert_eq!(ring.sum(0, 2), u64::from(u32::MAX) + 2);
    }

    #[test]
    fn gk1_stripes_lose_nothing_under_contention() {
        let striped = Striped::<16>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|n| striped.add(n / 10_000, 1)));
            }
        });
        assert_eq!(striped.sum(4, 5), 200_000);
    }
}
