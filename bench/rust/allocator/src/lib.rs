//! The global allocator that a feature chooses. A program takes it by `use bench_allocator as _;`.
#![no_std]

#[cfg(any(feature = "hakmem", feature = "hakmem-fast"))]
#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
