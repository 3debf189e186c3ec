/* base/units.h - L0. Units of size, and the geometry that all layers share. */
#ifndef HK_BASE_UNITS_H
#define HK_BASE_UNITS_H

#include <assert.h>
#include <stddef.h>

#define HK_KIB ((size_t)1024)
#define HK_MIB ((size_t)1024 * 1024)
#define HK_GIB ((size_t)1024 * 1024 * 1024)
#define HK_TIB ((size_t)1024 * 1024 * 1024 * 1024)

/* ---- Chosen. */

/* A slab is the unit of ownership, with one descriptor each. 64 KiB is the largest OS page of arm64, so a slab is whole
 * pages on every system. */
#define HK_SLAB_SHIFT 16
/* A superslab is the unit of mapping and unmapping: 2 MiB, a huge page where pages are 4 KiB. */
#define HK_SUPERSLAB_SHIFT 21
/* User addresses have 47 bits on x86-64 and 48 on arm64 unless a program requests more by a hint, which hakmem never
 * does. One leaf of the region map describes a region. The map and its first leaf together take the least address space
 * where both are about as long. */
#if defined(__x86_64__)
#define HK_ADDRESS_BITS 47
#define HK_REGION_SHIFT 29
#else
#define HK_ADDRESS_BITS 48
#define HK_REGION_SHIFT 30
#endif

/* The alignment of every block: max_align_t on both architectures. */
#define HK_BLOCK_ALIGNMENT ((size_t)16)

#define HK_TINY_MAX_BYTES ((size_t)1024)
#define HK_MID_MAX_BYTES (32 * HK_KIB)
#define HK_RUN_MAX_BYTES HK_MIB

/* ---- Derived. */

#define HK_SLAB_BYTES ((size_t)1 << HK_SLAB_SHIFT)
#define HK_SUPERSLAB_BYTES ((size_t)1 << HK_SUPERSLAB_SHIFT)
#define HK_SUPERSLAB_SLABS (1u << (HK_SUPERSLAB_SHIFT - HK_SLAB_SHIFT))
#define HK_REGION_SLABS (1u << (HK_REGION_SHIFT - HK_SLAB_SHIFT))
#define HK_REGION_COUNT ((size_t)1 << (HK_ADDRESS_BITS - HK_REGION_SHIFT))

static_assert(HK_SUPERSLAB_SLABS == 32, "a superslab's slabs are one 32-bit mask");
static_assert(HK_RUN_MAX_BYTES <= HK_SUPERSLAB_BYTES / 2, "two of the largest runs share a superslab");

#endif /* HK_BASE_UNITS_H */
