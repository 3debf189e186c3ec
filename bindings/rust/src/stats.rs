//! Statistics of the whole process.

use alloc::vec::Vec;
use core::ffi::c_int;
use core::mem::size_of;

use crate::{sys, Band, Class, Error, Events, Heap, Stats};

/// Returns the figures of the whole process, in bytes where a field's text says nothing else. Looks at all memory: some
/// milliseconds for 10 GiB.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// let before = hakmem_alloc::stats()?;
/// let block = vec![0_u8; 3 << 20];
/// let after = hakmem_alloc::stats()?;
/// assert!(after.live_bytes >= before.live_bytes + block.len() as u64);
/// # Ok::<(), hakmem_alloc::Error>(())
/// ```
pub fn stats() -> Result<Stats, Error> {
    let mut out = Stats::default();
    check(unsafe { sys::hakmem_stats_get(&mut out, size_of::<Stats>()) })?;
    Ok(out)
}

/// Returns the counters of the whole process. Cheap.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// drop(vec![0_u8; 3 << 20]);
/// let events = hakmem_alloc::events()?;
/// assert!(events.large_alloc >= 1);
/// # Ok::<(), hakmem_alloc::Error>(())
/// ```
pub fn events() -> Result<Events, Error> {
    let mut out = Events::default();
    check(unsafe { sys::hakmem_stats_get_events(&mut out, size_of::<Events>()) })?;
    Ok(out)
}

/// Returns the figures of blocks by band of sizes: up to 1 KiB, up to 32 KiB, up to 1 MiB, above.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// let block = vec![0_u8; 100_000];
/// let runs = hakmem_alloc::bands()?[2];
/// assert!(runs.live_bytes >= block.len() as u64);
/// # Ok::<(), hakmem_alloc::Error>(())
/// ```
pub fn bands() -> Result<Vec<Band>, Error> {
    list(sys::hakmem_stats_get_bands)
}

/// Returns the figures of each size class that has memory.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// let block = Box::new([0_u8; 1000]);
/// let classes = hakmem_alloc::classes()?;
/// assert!(classes.iter().any(|class| class.bytes as usize == hakmem_alloc::good_size(1000) && class.live_blocks > 0));
/// # drop(block);
/// # Ok::<(), hakmem_alloc::Error>(())
/// ```
pub fn classes() -> Result<Vec<Class>, Error> {
    list(sys::hakmem_stats_get_classes)
}

/// Returns the figures of each heap, oldest first. A thread has one.
///
/// ```
/// # #[global_allocator]
/// # static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
/// std::thread::spawn(|| assert!(hakmem_alloc::heaps().unwrap().len() >= 2)).join().unwrap();
/// ```
pub fn heaps() -> Result<Vec<Heap>, Error> {
    list(sys::hakmem_stats_get_heaps)
}

fn check(error: c_int) -> Result<(), Error> {
    // The other error is EINVAL, for a NULL pointer or too small a size.
    if error == 0 {
        Ok(())
    } else {
        Err(Error::OutOfMemory)
    }
}

/// Calls `get` with room for the elements that exist, again while there are more by then.
fn list<T: Clone + Default>(get: unsafe extern "C" fn(*mut T, usize, *mut usize) -> c_int) -> Result<Vec<T>, Error> {
    let mut elements: Vec<T> = Vec::new();
    loop {
        let mut count = elements.len();
        check(unsafe { get(elements.as_mut_ptr(), size_of::<T>(), &mut count) })?;
        let is_whole = count <= elements.len();
        let missing = count.saturating_sub(elements.len());
        elements.try_reserve_exact(missing).map_err(|_| Error::OutOfMemory)?;
        elements.resize(count, T::default());
        if is_whole {
            return Ok(elements);
        }
    }
}
