//! Counts what the current thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
pub struct Counting;

/// What a thread has allocated since it began.
#[derive(Clone, Copy, Default)]
pub struct Allocated {
    /// How often, growing in place included.
    pub times: u64,
    /// Bytes, less those that it gave back.
    pub held: i64,
}

thread_local! {
    static ALLOCATED: Cell<Allocated> = const { Cell::new(Allocated { times: 0, held: 0 }) };
}

impl Allocated {
    /// The present count of this thread.
    pub fn here() -> Self {
        ALLOCATED.get()
    }

    /// What came on top since `before`.
    pub fn since(before: Self) -> Self {
        let now = Self::here();
        Self {
            times: now.times - before.times,
            held: now.held - before.held,
        }
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(times: u64, bytes: i64) {
    let before = ALLOCATED.get();
    ALLOCATED.set(Allocated {
        times: before.times + times,
        held: before.held + bytes,
    });
}
