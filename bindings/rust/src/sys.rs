//! The C functions, as `hakmem/hakmem.h` declares them. The rest of the crate is safer to use.

use core::ffi::{c_char, c_int, c_void};

use crate::figures::{Band, Class, Events, Heap, Stats};
use crate::named::{TagCounts, Usage};

#[repr(C)]
pub struct hakmem_heap_t {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct hakmem_tag_t {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct hakmem_heap_options_t {
    pub size: usize,
    pub soft_limit: usize,
    pub hard_limit: usize,
    pub on_soft_limit: Option<unsafe extern "C" fn(heap: *mut hakmem_heap_t, bytes: usize, context: *mut c_void)>,
    pub context: *mut c_void,
    pub report_leaks: c_int,
}

extern "C" {
    pub fn hakmem_malloc(size: usize) -> *mut c_void;
    pub fn hakmem_free(block: *mut c_void);
    pub fn hakmem_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hakmem_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn hakmem_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hakmem_aligned_calloc(alignment: usize, count: usize, size: usize) -> *mut c_void;
    pub fn hakmem_aligned_realloc(block: *mut c_void, alignment: usize, size: usize) -> *mut c_void;
    pub fn hakmem_malloc_usable_size(block: *mut c_void) -> usize;
    pub fn hakmem_good_size(size: usize) -> usize;
    pub fn hakmem_check_owned(address: *const c_void) -> bool;
    pub fn hakmem_describe(address: *const c_void, buffer: *mut c_char, bytes: usize) -> usize;
    pub fn hakmem_collect() -> usize;
    pub fn hakmem_malloc_trim(pad: usize) -> c_int;
    pub fn hakmem_malloc_stats();
    pub fn hakmem_heap_create(name: *const c_char, options: *const hakmem_heap_options_t) -> *mut hakmem_heap_t;
    pub fn hakmem_heap_malloc(heap: *mut hakmem_heap_t, size: usize) -> *mut c_void;
    pub fn hakmem_heap_calloc(heap: *mut hakmem_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn hakmem_heap_realloc(heap: *mut hakmem_heap_t, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn hakmem_heap_aligned_alloc(heap: *mut hakmem_heap_t, alignment: usize, size: usize) -> *mut c_void;
    pub fn hakmem_heap_strdup(heap: *mut hakmem_heap_t, text: *const c_char) -> *mut c_char;
    pub fn hakmem_heap_destroy(heap: *mut hakmem_heap_t);
    pub fn hakmem_heap_collect(heap: *mut hakmem_heap_t) -> usize;
    pub fn hakmem_heap_of(block: *const c_void) -> *mut hakmem_heap_t;
    pub fn hakmem_heap_name(heap: *const hakmem_heap_t) -> *const c_char;
    pub fn hakmem_heap_usage(heap: *const hakmem_heap_t, out: *mut Usage, size: usize);
    pub fn hakmem_tag_create(name: *const c_char) -> *mut hakmem_tag_t;
    pub fn hakmem_tag_limit(tag: *mut hakmem_tag_t, soft_limit: usize, hard_limit: usize);
    pub fn hakmem_tag_push(tag: *mut hakmem_tag_t);
    pub fn hakmem_tag_pop();
    pub fn hakmem_tag_remove(tag: *mut hakmem_tag_t);
    pub fn hakmem_tag_counts(tag: *const hakmem_tag_t, out: *mut TagCounts, size: usize);
    pub fn hakmem_tag_of(block: *const c_void) -> *mut hakmem_tag_t;
    pub fn hakmem_tag_name(tag: *const hakmem_tag_t) -> *const c_char;
    pub fn hakmem_tag_usage(tag: *const hakmem_tag_t, out: *mut Usage, size: usize);
    pub fn hakmem_stats_get(out: *mut Stats, size: usize) -> c_int;
    pub fn hakmem_stats_get_events(out: *mut Events, size: usize) -> c_int;
    pub fn hakmem_stats_get_bands(out: *mut Band, size: usize, count: *mut usize) -> c_int;
    pub fn hakmem_stats_get_classes(out: *mut Class, size: usize, count: *mut usize) -> c_int;
    pub fn hakmem_stats_get_heaps(out: *mut Heap, size: usize, count: *mut usize) -> c_int;
    pub fn hakmem_profile_start(rate: usize) -> bool;
    pub fn hakmem_profile_stop() -> bool;
    pub fn hakmem_version() -> *const c_char;
}

// csrc/crate.c
extern "C" {
    pub(crate) fn hakmem_crate_link() -> Option<unsafe extern "C" fn(usize) -> *mut c_void>;
    pub(crate) fn hakmem_crate_profile_is_running() -> bool;
    pub(crate) fn hakmem_crate_profile_write(
        put: unsafe extern "C" fn(context: *mut c_void, bytes: *const c_void, count: usize) -> bool,
        context: *mut c_void,
    ) -> c_int;
}
