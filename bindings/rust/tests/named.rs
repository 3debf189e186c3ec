//! Named heaps and tags: blocks, limits, guards in any order, counts, threads.

use std::ffi::CStr;
use std::thread;

use hakmem_alloc::{sys, Hakmem, NamedHeap, Tag};

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem;

fn name(text: &'static [u8]) -> &'static CStr {
    CStr::from_bytes_with_nul(text).unwrap()
}

#[test]
fn a_heap_has_its_blocks() {
    let heap = NamedHeap::new(name(b"rust heap\0"), 0, 0).unwrap();
    let blocks: Vec<_> = (0..1000).map(|size| heap.alloc(size).unwrap()).collect();
    assert!(blocks.iter().all(|block| heap.owns(block.as_ptr())));
    let outside = Box::new(1);
    assert!(!heap.owns(&*outside));
    assert!(heap.usage().bytes >= 1000 * 999 / 2);
    let other = blocks[0].as_ptr() as usize;
    // SAFETY: the block is freed once.
    thread::spawn(move || unsafe { sys::hakmem_free(other as *mut _) }).join().unwrap();
    // SAFETY: no block is used from here on.
    unsafe { heap.destroy() };
}

#[test]
fn a_hard_limit_refuses() {
    let heap = NamedHeap::new(name(b"rust limit\0"), 0, 1 << 20).unwrap();
    let count = std::iter::from_fn(|| heap.alloc(1000)).take(10_000).count();
    assert!((900..1100).contains(&count), "{count}");
    assert!(heap.usage().refused_count > 0);
    // SAFETY: no block is used from here on.
    unsafe { heap.destroy() };
}

#[test]
fn a_tag_is_charged_for_what_rust_allocates() {
    let tag = Tag::new(name(b"rust tag\0")).unwrap();
    let kept = {
        let _guard = tag.push();
        (0..100).map(|i| vec![0_u8; 100 + i]).collect::<Vec<_>>()
    };
    assert!(kept.iter().all(|one| tag.owns(one.as_ptr())));
    let counts = tag.counts();
    assert!(counts.live_blocks >= 101 && counts.allocated_blocks == counts.freed_blocks + counts.live_blocks);
    thread::spawn(move || drop(kept)).join().unwrap();
    let after = tag.counts();
    assert_eq!((after.live_blocks, after.live_bytes), (0, 0));
    assert_eq!(after.freed_bytes, after.allocated_bytes);
}

#[test]
fn guards_end_in_any_order() {
    let (one, two) = (Tag::new(name(b"rust one\0")).unwrap(), Tag::new(name(b"rust two\0")).unwrap());
    let first = one.push();
    let second = two.push();
    drop(first);
    let block = Box::new([0_u64; 4]);
    assert!(two.owns(&*block));
    drop(second);
    let plain = Box::new([0_u64; 4]);
    assert!(!one.owns(&*plain) && !two.owns(&*plain));
}
