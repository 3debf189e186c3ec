#![no_std]
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_void, CStr};
use core::fmt;

mod figures;
mod named;
pub mod profile;
mod stats;
#[allow(missing_docs)]
pub mod sys;

pub use figures::{Band, Class, Events, Heap, Stats};
pub use named::{NamedHeap, Tag, TagCounts, TagGuard, Usage};
pub use stats::{bands, classes, events, heaps, stats};

/// The allocator, for `#[global_allocator]`.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
///
/// let numbers: Vec<u64> = (0..1000).collect();
/// assert!(hakmem_alloc::owns(numbers.as_ptr()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hakmem;

/// Every block has this alignment: only a larger one takes the functions for aligned blocks.
const BLOCK_ALIGNMENT: usize = 16;

/// Has the linker take csrc/crate.c.
#[used]
static LINK: unsafe extern "C" fn() -> Option<unsafe extern "C" fn(usize) -> *mut c_void> = sys::hakmem_crate_link;

// SAFETY: hakmem's functions return NULL or a block of the size and alignment, and never unwind. A Layout's alignment
// is a power of two. The caller passes no size of 0, with which realloc would free the block.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if layout.align() <= BLOCK_ALIGNMENT {
            sys::hakmem_malloc(layout.size())
        } else {
            sys::hakmem_aligned_alloc(layout.align(), layout.size())
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        sys::hakmem_free(block.cast());
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = if layout.align() <= BLOCK_ALIGNMENT {
            sys::hakmem_calloc(1, layout.size())
        } else {
            sys::hakmem_aligned_calloc(layout.align(), 1, layout.size())
        };
        block.cast()
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let block = if layout.align() <= BLOCK_ALIGNMENT {
            sys::hakmem_realloc(block.cast(), new_size)
        } else {
            sys::hakmem_aligned_realloc(block.cast(), layout.align(), new_size)
        };
        block.cast()
    }
}

impl Hakmem {
    /// Returns how many bytes of a block the program may use: at least those of its layout.
    ///
    /// # Safety
    ///
    /// `block` is a live block of hakmem's.
    ///
    /// ```
    /// # #[global_allocator]
    /// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
    /// let block = Box::new([0_u8; 100]);
    /// let usable = unsafe { hakmem_alloc::Hakmem.usable_size(block.as_ptr()) };
    /// assert_eq!(usable, hakmem_alloc::good_size(100));
    /// ```
    #[inline]
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        sys::hakmem_malloc_usable_size(block.cast_mut().cast())
    }
}

/// Returns the usable bytes that a block of `size` bytes has. A request for that many takes no more memory.
///
/// ```
/// let usable = hakmem_alloc::good_size(1_000_000);
/// assert!(usable >= 1_000_000);
/// assert_eq!(hakmem_alloc::good_size(usable), usable);
/// ```
pub fn good_size(size: usize) -> usize {
    unsafe { sys::hakmem_good_size(size) }
}

/// Returns whether an address is the start of a live block of hakmem's. Accepts any address.
///
/// ```
/// let on_the_stack = 0_u8;
/// assert!(!hakmem_alloc::owns(&on_the_stack));
/// ```
pub fn owns<T: ?Sized>(address: *const T) -> bool {
    unsafe { sys::hakmem_check_owned(address.cast()) }
}

/// Collects blocks that other threads freed, and purges the memory that no block uses: of the calling thread, of threads
/// that ended and of threads that sleep. Returns how many bytes went back to the system.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// drop(vec![1_u8; 64 << 20]);
/// hakmem_alloc::collect();
/// assert!(hakmem_alloc::stats().unwrap().memory_large_dirty < 1 << 20);
/// ```
pub fn collect() -> usize {
    unsafe { sys::hakmem_collect() }
}

/// Returns the version of the C library, `MAJOR.MINOR.PATCH`, which is that of this crate.
///
/// ```
/// assert!(hakmem_alloc::version().starts_with("0.1."));
/// ```
pub fn version() -> &'static str {
    let text = unsafe { CStr::from_ptr(sys::hakmem_version()) };
    text.to_str().unwrap_or_default()
}

/// Why statistics or a profile cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system has no memory for the result.
    OutOfMemory,
    /// A heap profile runs already.
    AlreadyRunning,
    /// No heap profile runs, or none was ever started.
    NotRunning,
    /// The crate was built with the feature `fast`, which has no heap profile.
    Unsupported,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Error::OutOfMemory => "the system has no memory for the result",
            Error::AlreadyRunning => "a heap profile is running already",
            Error::NotRunning => "no heap profile was started",
            Error::Unsupported => "hakmem-alloc with the feature `fast` has no heap profile",
        })
    }
}

impl core::error::Error for Error {}
