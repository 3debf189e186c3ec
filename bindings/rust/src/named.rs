//! Named heaps and tags: the memory of a subsystem.

use core::ffi::CStr;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::sys;

/// Figures of a named heap or a tag: `hakmem_heap_usage_t`. Sizes are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Memory that it has now: slabs, and larger blocks.
    pub bytes: u64,
    /// The highest `bytes`.
    pub peak_bytes: u64,
    /// The part of `bytes` that blocks above 32 KiB have.
    pub larger_bytes: u64,
    /// Blocks above 32 KiB.
    pub larger_blocks: u64,
    /// Soft limit on `bytes`; 0: none.
    pub soft_limit: u64,
    /// Hard limit on `bytes`; 0: none.
    pub hard_limit: u64,
    /// Times that `bytes` rose above the soft limit.
    pub soft_count: u64,
    /// Times that the hard limit refused memory.
    pub refused_count: u64,
}

/// What was allocated under a tag, and freed by any thread: `hakmem_tag_counts_t`. Bytes are usable bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagCounts {
    /// Blocks that were allocated.
    pub allocated_blocks: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Blocks that were freed.
    pub freed_blocks: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Blocks that are allocated and not freed.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// A heap with a name. Its blocks are blocks as all others: `hakmem_free` takes them. It stays for the rest of the
/// process unless [`NamedHeap::destroy`] ends it.
#[derive(Debug)]
pub struct NamedHeap(NonNull<sys::hakmem_heap_t>);

// SAFETY: any thread may use a named heap.
unsafe impl Send for NamedHeap {}
// SAFETY: as above, several at once.
unsafe impl Sync for NamedHeap {}

impl NamedHeap {
    /// Returns a new heap, or `None` without memory. The name is copied, up to 63 bytes. Limits are in bytes; 0: none.
    #[must_use]
    pub fn new(name: &CStr, soft_limit: usize, hard_limit: usize) -> Option<Self> {
        let options = sys::hakmem_heap_options_t {
            size: core::mem::size_of::<sys::hakmem_heap_options_t>(),
            soft_limit,
            hard_limit,
            on_soft_limit: None,
            context: core::ptr::null_mut(),
            report_leaks: 0,
        };
        // SAFETY: the name ends with a zero byte, and the options say their size.
        NonNull::new(unsafe { sys::hakmem_heap_create(name.as_ptr(), &options) }).map(Self)
    }

    /// Returns a block of the heap; `None` without memory, or when a limit refuses. `sys::hakmem_free` frees it.
    #[must_use]
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the heap lives.
        NonNull::new(unsafe { sys::hakmem_heap_malloc(self.0.as_ptr(), bytes) }.cast())
    }

    /// Returns whether a block is a live one of the heap. Takes any address.
    #[must_use]
    pub fn owns<T>(&self, block: *const T) -> bool {
        // SAFETY: the function takes any address and reads nothing there.
        unsafe { sys::hakmem_heap_of(block.cast()) == self.0.as_ptr() }
    }

    /// Returns the heap's figures.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        // SAFETY: the heap lives, and the size is that of `usage`.
        unsafe { sys::hakmem_heap_usage(self.0.as_ptr(), &mut usage, core::mem::size_of::<Usage>()) };
        usage
    }

    /// Frees all blocks of the heap, and the heap.
    ///
    /// # Safety
    ///
    /// No block of the heap is used or freed from now on.
    pub unsafe fn destroy(self) {
        sys::hakmem_heap_destroy(self.0.as_ptr());
    }
}

/// A tag, which lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Tag(NonNull<sys::hakmem_tag_t>);

// SAFETY: any thread may push a tag.
unsafe impl Send for Tag {}
// SAFETY: as above, several at once.
unsafe impl Sync for Tag {}

impl Tag {
    /// Returns the tag of that name, which the first call makes, or `None` without memory. The name is copied, up to 63
    /// bytes.
    #[must_use]
    pub fn new(name: &CStr) -> Option<Self> {
        // SAFETY: the name ends with a zero byte.
        NonNull::new(unsafe { sys::hakmem_tag_create(name.as_ptr()) }).map(Self)
    }

    /// Charges what the calling thread allocates to the tag, while the guard lives.
    #[must_use]
    pub fn push(&self) -> TagGuard {
        // SAFETY: a tag lives as long as the process.
        unsafe { sys::hakmem_tag_push(self.0.as_ptr()) };
        TagGuard(self.0, PhantomData)
    }

    /// Sets the limits of the tag, in bytes; 0: none.
    pub fn limit(&self, soft: usize, hard: usize) {
        // SAFETY: as above.
        unsafe { sys::hakmem_tag_limit(self.0.as_ptr(), soft, hard) };
    }

    /// Returns whether a live block is charged to the tag. Takes any address.
    #[must_use]
    pub fn owns<T>(&self, block: *const T) -> bool {
        // SAFETY: the function takes any address and reads nothing there.
        unsafe { sys::hakmem_tag_of(block.cast()) == self.0.as_ptr() }
    }

    /// Returns the tag's figures.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        // SAFETY: as above, and the size is that of `usage`.
        unsafe { sys::hakmem_tag_usage(self.0.as_ptr(), &mut usage, core::mem::size_of::<Usage>()) };
        usage
    }

    /// Returns the tag's counts. They are exact while no thread allocates or frees under the tag.
    #[must_use]
    pub fn counts(&self) -> TagCounts {
        let mut counts = TagCounts::default();
        // SAFETY: as above, and the size is that of `counts`.
        unsafe { sys::hakmem_tag_counts(self.0.as_ptr(), &mut counts, core::mem::size_of::<TagCounts>()) };
        counts
    }
}

/// Pops its tag at its end. Guards of a thread may end in any order, and stay in their thread.
#[derive(Debug)]
pub struct TagGuard(NonNull<sys::hakmem_tag_t>, PhantomData<*const ()>);

impl Drop for TagGuard {
    fn drop(&mut self) {
        // SAFETY: the guard has pushed a tag in this thread.
        unsafe { sys::hakmem_tag_remove(self.0.as_ptr()) };
    }
}
