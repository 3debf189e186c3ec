//! The C functions, as `hakmem/hakmem.h` declares them. The rest of the crate is safer to use.

use core::ffi::{c_char, c_int, c_void};

use crate::figures::{Band, Class, Events, Heap, Stats};

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
