//! A call under the default policy, breaker and budget on, allocates nothing on its happy path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seawall_engine::{
    Action, Call, Ending, Guards, KeyGuards, Outcome, Phase, Policy, Record, Report, Request,
    Settled, Time,
};

/// Counts what its own thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one only counts"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

fn call(policy: &Policy, guards: &KeyGuards, seed: u64, now: Time) {
    let mut call = Call::new(policy, Request::default(), seed, now);
    let Action::Start(start) = call.poll(policy, guards, now) else {
        panic!()
    };
    let answered = now.after(std::time::Duration::from_millis(3));
    let settled = Settled {
        answered: true,
        ..Settled::new(Outcome::Success)
    };
    call.ended(policy, guards, answered, start.number, settled);
    let Action::Finish(finish) = call.poll(policy, guards, answered) else {
        panic!()
    };
    assert_eq!(finish.ending, Ending::Success);
}

#[test]
fn e2_a_call_with_the_default_guards_allocates_nothing() {
    let policy = Policy::default();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    call(&policy, &guards, 0, Time::ZERO);
    let allocated = allocations_of(|| {
        for n in 1..10_000 {
            call(&policy, &guards, n, Time::from_nanos(n * 1_000_000));
        }
    });
    assert_eq!(allocated, 0);
}

#[test]
fn gk6_finding_the_guards_of_a_key_allocates_nothing() {
    let (policy, reloaded) = (Policy::default(), Policy::default());
    let guards = Guards::with_seed(1);
    let find = |policy: &Policy, n| {
        let now = Time::from_nanos(n * 1_000_000);
        let found = guards.for_key("https://a.example:443", "a.example", policy, now);
        call(policy, &found, n, now);
    };
    find(&policy, 0);
    find(&reloaded, 0);
    let allocated = allocations_of(|| {
        for n in 1..1_000 {
            find(&policy, n);
            find(&reloaded, n);
        }
    });
    assert_eq!(allocated, 0);
}

/// The first record of a report is inline too: the first retry waits and starts for nothing.
#[test]
fn e2_the_first_retry_allocates_nothing_until_it_ends() {
    let policy = Policy::default();
    let guards = KeyGuards::new(&policy, Time::ZERO);
    let allocated = allocations_of(|| {
        let mut call = Call::new(&policy, Request::default(), 1, Time::ZERO);
        call.poll(&policy, &guards, Time::ZERO);
        let failed = Settled::new(Outcome::Transient(Phase::Ambiguous));
        call.ended(&policy, &guards, Time::ZERO, 1, failed);
        let Action::Wait(wait) = call.poll(&policy, &guards, Time::ZERO) else {
            panic!()
        };
        let next = call.poll(&policy, &guards, wait.until);
        assert!(matches!(next, Action::Start(_)));
    });
    assert_eq!(allocated, 0);
}

#[test]
fn e2_a_call_and_its_report_are_small() {
    let sizes = [
        ("Call", size_of::<Call>(), 512),
        ("Report", size_of::<Report>(), 256),
        ("Record", size_of::<Record>(), 160),
        ("Action", size_of::<Action>(), 64),
    ];
    for (name, size, most) in sizes {
        println!("{name}: {size} bytes");
        assert!(size <= most, "{name} is {size} bytes, more than {most}");
    }
}

/// The counter counts.
#[test]
fn an_allocation_is_seen() {
    assert!(allocations_of(|| drop(std::hint::black_box(Box::new(7)))) > 0);
}
