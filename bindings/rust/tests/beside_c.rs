//! The C library's malloc: its own without the feature `override`, hakmem's with it.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::thread;

#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    fn free(block: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
}

const OVERRIDES: bool = cfg!(feature = "override");

#[test]
fn c_blocks_come_from_the_allocator_of_the_feature() {
    unsafe {
        let block = malloc(100);
        assert_eq!(hakmem_alloc::owns(block), OVERRIDES);
        let block = realloc(block, 200_000);
        assert_eq!(hakmem_alloc::owns(block), OVERRIDES);
        free(block);
        let block = calloc(10, 10);
        assert_eq!(hakmem_alloc::owns(block), OVERRIDES);
        free(block);
        let mut block = std::ptr::null_mut();
        assert_eq!(posix_memalign(&mut block, 64, 100), 0);
        assert_eq!(hakmem_alloc::owns(block), OVERRIDES);
        free(block);
    }
}

#[test]
fn the_c_library_itself_follows() {
    unsafe {
        // strdup calls malloc from inside the C library.
        let copy = strdup(c"from the C library".as_ptr());
        assert_eq!(hakmem_alloc::owns(copy), OVERRIDES);
        assert_eq!(CStr::from_ptr(copy), c"from the C library");
        free(copy.cast());
    }
}

#[test]
fn rust_blocks_are_always_hakmems() {
    assert!(hakmem_alloc::owns(Box::new(1_u64).as_ref()));
}

#[test]
fn both_allocators_serve_threads_side_by_side() {
    let work = || {
        for size in 1..3000_usize {
            let rust = vec![size as u8; size];
            let c = unsafe { malloc(size).cast::<u8>() };
            unsafe { c.write_bytes(size as u8, size) };
            assert!(rust.iter().enumerate().all(|(i, byte)| *byte == unsafe { c.add(i).read() }));
            unsafe { free(c.cast()) };
        }
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
