//! Statistics and the heap profile. One test at a time: they are of the whole process.

use std::mem::size_of;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use hakmem_alloc::{profile, Error};

#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_structs_have_the_library_s_layout() {
    let _alone = alone();
    let stats = hakmem_alloc::stats().unwrap();
    assert_eq!((stats.version, stats.filled), (1, size_of::<hakmem_alloc::Stats>() as u64));
    let events = hakmem_alloc::events().unwrap();
    assert_eq!((events.version, events.filled), (1, size_of::<hakmem_alloc::Events>() as u64));
    let bands: Vec<u64> = hakmem_alloc::bands().unwrap().iter().map(|band| band.band).collect();
    assert_eq!(bands, [0, 1, 2, 3]);
    let heaps = hakmem_alloc::heaps().unwrap();
    assert!(heaps.iter().zip(1..).all(|(heap, number)| heap.number == number), "the last fields are in their places");
}

#[test]
fn statistics_follow_the_program() {
    let _alone = alone();
    hakmem_alloc::collect(); // what another test has left dirty would serve these blocks
    let before = hakmem_alloc::stats().unwrap();
    let blocks: Vec<Box<[u8; 1000]>> = (0..10_000).map(|_| Box::new([1; 1000])).collect();
    let during = hakmem_alloc::stats().unwrap();
    // The harness of the tests frees some hundreds of its own meanwhile.
    assert!(
        during.live_blocks >= before.live_blocks + 9_000,
        "{} blocks before, {} with 10,000 more",
        before.live_blocks,
        during.live_blocks
    );
    assert!(during.live_bytes >= before.live_bytes + 9_000_000);
    assert!(during.memory_resident >= before.memory_resident + 8_000_000);
    let class = hakmem_alloc::good_size(1000) as u64;
    let classes = hakmem_alloc::classes().unwrap();
    // A larger class serves a thread's first few requests.
    assert!(classes.iter().find(|found| found.bytes == class).unwrap().live_blocks >= 9_900);
    drop(blocks);
    hakmem_alloc::collect();
    let after = hakmem_alloc::stats().unwrap();
    assert!(after.live_bytes + 9_000_000 < during.live_bytes);
    assert!(after.memory_resident + 8_000_000 < during.memory_resident, "the memory went back to the system");
}

#[test]
fn each_thread_has_a_heap() {
    let _alone = alone();
    let count = hakmem_alloc::stats().unwrap().memory_heaps;
    let (ready, wait) = (std::sync::Barrier::new(9), std::sync::Barrier::new(9));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let block = vec![1_u8; 100];
                ready.wait();
                wait.wait();
                drop(block);
            });
        }
        ready.wait();
        assert!(hakmem_alloc::stats().unwrap().memory_heaps >= 8.max(count));
        wait.wait();
    });
}

#[test]
fn the_version_is_the_crate_s() {
    assert_eq!(hakmem_alloc::version(), env!("CARGO_PKG_VERSION"));
}

#[test]
#[cfg(feature = "fast")]
fn fast_has_no_profile() {
    assert_eq!(profile::start(0), Err(Error::Unsupported));
    assert_eq!(profile::dump_pprof(), Err(Error::Unsupported));
    assert!(!profile::is_running());
}

/// One test, because the first start of the process differs from the others.
#[test]
#[cfg(not(feature = "fast"))]
fn the_profile() {
    let _alone = alone();
    it_has_the_memory_in_use();
    it_is_taken_while_threads_allocate();
}

#[cfg(not(feature = "fast"))]
fn it_has_the_memory_in_use() {
    assert_eq!(profile::stop(), Err(Error::NotRunning));
    assert_eq!(profile::dump_pprof(), Err(Error::NotRunning));
    profile::start(10_000).unwrap();
    assert_eq!(profile::start(0), Err(Error::AlreadyRunning));
    assert!(profile::is_running());
    let empty = profile::dump_pprof().unwrap();
    let blocks: Vec<Vec<u8>> = (1..2000).map(|size| vec![1; size * 10]).collect();
    let full = profile::dump_pprof().unwrap();
    assert_eq!(full[..2], [0x1f, 0x8b], "gzip");
    assert!(full.len() > empty.len());
    let requested = hakmem_alloc::stats().unwrap().live_requested_estimate;
    assert!((15_000_000..25_000_000).contains(&requested), "{requested} estimated of 19,990,000");
    profile::stop().unwrap();
    assert!(!profile::is_running());
    assert!(profile::dump_pprof().is_ok(), "the samples stay known");
    drop(blocks);
}

#[cfg(not(feature = "fast"))]
fn it_is_taken_while_threads_allocate() {
    profile::start(1000).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..300 {
                    let blocks: Vec<Vec<u8>> = (1..200).map(|size| vec![1; size + round]).collect();
                    assert!(blocks.iter().all(|block| block[0] == 1));
                }
            });
        }
        for _ in 0..20 {
            assert!(profile::dump_pprof().unwrap().len() > 100);
        }
    });
    profile::stop().unwrap();
}
