/* space/region_map.h - L3. From any address to its slab descriptor: a root of regions, leaves of descriptors.
 *
 * The root holds each leaf's distance from the map itself. An untouched entry, 0, is thereby the map's own first
 * member, a leaf whose descriptors all say "not ours": every pointer has a descriptor, and the lookup has no branch.
 * The map is three or four MiB of zero memory of which only what is written to is resident (reading costs no page).
 *
 * Map and leaves are read-only but for the pages that were entered: memory that cannot be written to does not count
 * against RLIMIT_DATA. A page that is not writable is all zero.
 */
#ifndef HK_SPACE_REGION_MAP_H
#define HK_SPACE_REGION_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "space/slab.h"

typedef struct {
  hk_slab_t slab[HK_REGION_SLABS];
} hk_region_t;

typedef struct {
  hk_region_t nothing;
  _Atomic(intptr_t) distance[HK_REGION_COUNT];
} hk_region_map_t;

extern HK_HIDDEN hk_region_map_t hk_region_map;

/* The descriptor of the slab that `address` lies in. In a build with checks `address` may be any value; its bits
 * above the 48th are ignored. Relaxed: whoever holds a pointer into a region got it after the region was entered. */
HK_INLINE hk_slab_t *hk_slab_of(const void *address) {
  enum { slab_bytes_shift = 7 };
  static_assert(sizeof(hk_slab_t) == 1u << slab_bytes_shift, "the shift below is the descriptor's size");
  uintptr_t value = (uintptr_t)address;
  size_t region = hk_address_bits(value) >> HK_REGION_SHIFT;
  uintptr_t within =
      (value >> (HK_SLAB_SHIFT - slab_bytes_shift)) & ((uintptr_t)(HK_REGION_SLABS - 1) << slab_bytes_shift);
  hk_region_map_t *map = &hk_region_map;
  return (hk_slab_t *)(hk_add_relaxed_load((uintptr_t)map, &map->distance[region]) + within);
}

/* Before the first region is entered: the map is kept in small pages, and read-only. */
void hk_region_map_init(void);

/* Makes sure that the slabs of a range, whole slabs, have descriptors of their own, which can be written to. False when
 * the system refuses. Any thread, no lock. */
bool hk_region_map_enter(const void *start, size_t bytes);

/* The descriptors of the first region from `*region` on that has its own, whose number `*region` becomes; NULL when
 * there is none. Any thread, no lock. */
hk_slab_t *hk_region_map_find(size_t *region);

/* What of the map is resident, as far as it was written to. Looks at all of it: not often. */
size_t hk_region_map_resident_bytes(void);

/* What the leaves take of the address space. */
size_t hk_region_map_mapped_bytes(void);

#endif /* HK_SPACE_REGION_MAP_H */
