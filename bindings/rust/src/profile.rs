//! The heap profile: which code allocated the memory in use, and all memory since the start.
//!
//! hakmem samples: with the usual rate one allocation for every 512 KiB, so a service may leave the profile on. The
//! result is the format of [pprof](https://github.com/google/pprof), gzipped, with addresses and build IDs: Parca,
//! Pyroscope, `go tool pprof PROGRAM FILE` and `hakmem profile --input FILE` find the names. A profile of a release
//! build needs `debug = "line-tables-only"` in `[profile.release]` for lines.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if cfg!(feature = "fast") { return Ok(()); }
//! hakmem_alloc::profile::start(0)?;
//! let cache: Vec<Vec<u8>> = (0..1000).map(|_| vec![0; 10_000]).collect();
//! let bytes = hakmem_alloc::profile::dump_pprof()?;
//! hakmem_alloc::profile::stop()?;
//! # drop(cache);
//! # let folder = std::env::temp_dir();
//! std::fs::write(folder.join("heap.pb.gz"), bytes)?;
//! # Ok(())
//! # }
//! ```
//!
//! Environment variables start a profile too, without a call: `HAKMEM_PROFILE=1 HAKMEM_PROFILE_FILE=heap.%p.pb.gz`.

use alloc::vec::Vec;
use core::ffi::c_void;

use crate::{sys, Error};

/// Starts the profile, with an average of `rate` bytes between samples. 0 takes the option `HAKMEM_PROFILE_RATE`, which
/// is 512 KiB by default.
///
/// # Errors
///
/// [`Error::AlreadyRunning`], and [`Error::Unsupported`] with the feature `fast`.
pub fn start(rate: usize) -> Result<(), Error> {
    if cfg!(feature = "fast") {
        return Err(Error::Unsupported);
    }
    if unsafe { sys::hakmem_profile_start(rate) } {
        Ok(())
    } else {
        Err(Error::AlreadyRunning)
    }
}

/// Stops the profile. Samples stay known until their blocks are freed, so [`dump_pprof`] still has them.
///
/// # Errors
///
/// [`Error::NotRunning`].
pub fn stop() -> Result<(), Error> {
    if unsafe { sys::hakmem_profile_stop() } {
        Ok(())
    } else {
        Err(Error::NotRunning)
    }
}

/// Returns whether the profile runs, whoever started it.
pub fn is_running() -> bool {
    unsafe { sys::hakmem_crate_profile_is_running() }
}

/// Returns the profile that started last, as gzipped `profile.proto`.
///
/// # Errors
///
/// [`Error::NotRunning`] when none was ever started in this process, [`Error::OutOfMemory`], and [`Error::Unsupported`]
/// with the feature `fast`.
pub fn dump_pprof() -> Result<Vec<u8>, Error> {
    if cfg!(feature = "fast") {
        return Err(Error::Unsupported);
    }
    let mut bytes: Vec<u8> = Vec::new();
    match unsafe { sys::hakmem_crate_profile_write(append, (&raw mut bytes).cast()) } {
        0 => Ok(bytes),
        1 => Err(Error::NotRunning),
        _ => Err(Error::OutOfMemory),
    }
}

/// # Safety
///
/// `context` is a `Vec<u8>` that nothing else uses, and `bytes` are `count` bytes.
unsafe extern "C" fn append(context: *mut c_void, bytes: *const c_void, count: usize) -> bool {
    let out: &mut Vec<u8> = &mut *context.cast();
    if out.try_reserve(count).is_err() {
        return false;
    }
    out.extend_from_slice(core::slice::from_raw_parts(bytes.cast(), count));
    true
}
