//! The allocator behind Rust's own types: alignment, zero, contents, threads. Every test runs with each set of features.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

use hakmem_alloc::Hakmem;

#[global_allocator]
static ALLOCATOR: Hakmem = Hakmem;

const ALIGNMENTS: [usize; 9] = [1, 8, 16, 32, 64, 4096, 65536, 1 << 20, 4 << 20];
const SIZES: [usize; 8] = [1, 24, 1000, 5000, 32768, 40000, 200_000, 1_200_000];

fn layout(size: usize, alignment: usize) -> Layout {
    Layout::from_size_align(size, alignment).unwrap()
}

fn byte(index: usize, seed: usize) -> u8 {
    (index.wrapping_mul(167) ^ (index >> 8) ^ seed) as u8
}

unsafe fn fill(block: *mut u8, size: usize, seed: usize) {
    for index in 0..size {
        block.add(index).write(byte(index, seed));
    }
}

unsafe fn is_filled(block: *const u8, size: usize, seed: usize) -> bool {
    (0..size).all(|index| block.add(index).read() == byte(index, seed))
}

#[test]
fn blocks_are_hakmems_and_aligned() {
    for alignment in ALIGNMENTS {
        for size in SIZES {
            unsafe {
                let block = alloc(layout(size, alignment));
                assert!(!block.is_null());
                assert_eq!(block as usize % alignment, 0, "{size} at {alignment}");
                assert!(hakmem_alloc::owns(block));
                let usable = Hakmem.usable_size(block);
                assert!(usable >= size);
                fill(block, usable, size);
                assert!(is_filled(block, usable, size));
                dealloc(block, layout(size, alignment));
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_after_dirty_ones() {
    for alignment in ALIGNMENTS {
        for size in SIZES {
            unsafe {
                let dirty = alloc(layout(size, alignment));
                dirty.write_bytes(0xee, size);
                dealloc(dirty, layout(size, alignment));
                let block = alloc_zeroed(layout(size, alignment));
                assert_eq!(block as usize % alignment, 0);
                assert!((0..size).all(|index| block.add(index).read() == 0), "{size} at {alignment}");
                dealloc(block, layout(size, alignment));
            }
        }
    }
}

#[test]
fn a_large_zeroed_block_is_not_touched() {
    let resident = || hakmem_alloc::stats().unwrap().memory_resident;
    for alignment in [8, 4096] {
        let layout = layout(1 << 30, alignment);
        let before = resident();
        unsafe {
            let block = alloc_zeroed(layout);
            // Other tests run meanwhile, in a few MiB.
            assert!(resident() < before + (256 << 20));
            dealloc(block, layout);
        }
    }
}

#[test]
fn realloc_keeps_alignment_and_contents() {
    for alignment in ALIGNMENTS {
        for from in SIZES {
            for to in SIZES {
                unsafe {
                    let block = alloc(layout(from, alignment));
                    fill(block, from, to);
                    let block = realloc(block, layout(from, alignment), to);
                    assert_eq!(block as usize % alignment, 0, "{from} to {to} at {alignment}");
                    assert!(is_filled(block, from.min(to), to), "{from} to {to} at {alignment}");
                    dealloc(block, layout(to, alignment));
                }
            }
        }
    }
}

#[test]
fn realloc_stays_in_place_where_it_can() {
    for (alignment, size, new_size) in
        [(8, 1000, hakmem_alloc::good_size(1000)), (64, 640, 640), (8, 900_000, 700_000), (4096, 8 << 20, 6 << 20)]
    {
        unsafe {
            let block = alloc(layout(size, alignment));
            let same = realloc(block, layout(size, alignment), new_size);
            assert_eq!(block, same, "{size} to {new_size} at {alignment}");
            dealloc(same, layout(new_size, alignment));
        }
    }
}

#[test]
fn a_refused_request_is_null_and_the_block_stays() {
    let huge = isize::MAX as usize - 4096;
    unsafe {
        for alignment in [1, 16, 64, 4096] {
            assert!(alloc(layout(huge, alignment)).is_null());
            assert!(alloc_zeroed(layout(huge, alignment)).is_null());
            let block = alloc(layout(1000, alignment));
            fill(block, 1000, 7);
            assert!(realloc(block, layout(1000, alignment), huge).is_null());
            assert!(is_filled(block, 1000, 7));
            dealloc(block, layout(1000, alignment));
        }
    }
    let mut numbers: Vec<u8> = Vec::new();
    assert!(numbers.try_reserve(huge).is_err());
}

/// A generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(value ^ (value >> 31)) * bound as u128) >> 64) as usize
    }

    /// Returns a power of two: of fewer than `usual` bits, or now and then of fewer than `rare` bits.
    fn power(&mut self, usual: usize, rare: usize) -> usize {
        let bits = if self.below(50) == 0 { rare } else { usual };
        1 << self.below(bits)
    }
}

/// Any order of requests: no block overlaps another, none loses its contents.
fn random_requests(seed: u64, count: usize) {
    let mut random = Random(seed);
    let mut live: Vec<(*mut u8, Layout, usize)> = Vec::new();
    for step in 0..count {
        let most = random.power(14, 22);
        let size = 1 + random.below(most);
        if live.len() < 100 || (live.len() < 400 && random.below(2) == 0) {
            let layout = layout(size, random.power(8, 17));
            let block = unsafe { alloc(layout) };
            unsafe { fill(block, layout.size(), step) };
            live.push((block, layout, step));
        } else {
            let (block, old, seed) = live.swap_remove(random.below(live.len()));
            assert!(unsafe { is_filled(block, old.size(), seed) }, "{old:?}");
            if random.below(2) == 0 {
                unsafe { dealloc(block, old) };
                continue;
            }
            let block = unsafe { realloc(block, old, size) };
            assert!(unsafe { is_filled(block, old.size().min(size), seed) }, "{old:?} to {size}");
            assert_eq!(block as usize % old.align(), 0, "{old:?} to {size}");
            unsafe { fill(block, size, step) };
            live.push((block, layout(size, old.align()), step));
        }
    }
    for (block, layout, seed) in live {
        assert!(unsafe { is_filled(block, layout.size(), seed) });
        unsafe { dealloc(block, layout) };
    }
}

#[test]
fn random_requests_in_threads() {
    let threads: Vec<_> = (0..4).map(|seed| thread::spawn(move || random_requests(seed, 20_000))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn collections_in_threads_that_hand_blocks_on() {
    let (sender, receiver) = mpsc::channel::<HashMap<String, Vec<u32>>>();
    let senders: Vec<_> = (0..4_u32)
        .map(|thread| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..100 {
                    let entry = |n| (format!("{thread} {round} {n}"), vec![n; 1 + n as usize % 50]);
                    sender.send((0..100).map(entry).collect()).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut all = BTreeMap::new();
    receiver.iter().for_each(|map| all.extend(map));
    senders.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(all.len(), 4 * 100 * 100);
    assert!(all.iter().all(|(_, numbers)| numbers.len() == 1 + numbers[0] as usize % 50));
}
