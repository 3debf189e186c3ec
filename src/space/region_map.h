/* space/region_map.h - L3. Leads from any address to its slab descriptor: a root of regions, leaves of descriptors. The
 * leaves of the window, a range of regions where most blocks lie, are found without the root.
 *
 * The root holds each leaf's distance from the map itself. An untouched entry is 0 and leads to the map's own first
 * member, a leaf whose descriptors all say "not ours". So every pointer has a descriptor, and the lookup has no branch.
 * The map is 3 MiB (4 on arm64) of zero memory. Only pages that were written to are resident; reading makes none so.
 *
 * Map and leaves are read-only, except the pages that were entered: memory that cannot be written to does not count
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
  hk_region_t nothing;                         /* the leaf of all regions without one */
  _Atomic(intptr_t) distance[HK_REGION_COUNT]; /* [i]: from the map to the leaf of region i */
} hk_region_map_t;

extern HK_HIDDEN hk_region_map_t hk_region_map;

/* The window: a range of regions whose leaves lie side by side, so that one subtraction leads from an address to its
 * descriptor. free then waits for no load from the root, and the next malloc not for that free. hk_region_map_init
 * writes it. It is empty before, where the process's addresses or data are limited, and in a hardened build, whose
 * leaves have live bits between them. It ends when the heap has outgrown it: the processor could not predict where a
 * block lies. */
typedef struct {
  uintptr_t start;       /* of its addresses */
  uintptr_t leaf;        /* the descriptor of its first slab */
  _Atomic(size_t) bytes; /* of its addresses; 0: there is no window */
} hk_region_window_t;

extern HK_HIDDEN hk_region_window_t hk_region_window;

/* In a hardened build a leaf's descriptors are followed by the live bits of its region (live_bit.h): two words for each
 * 64 places where a block can start. */
typedef struct {
  _Atomic(uint64_t) live;
  _Atomic(uint64_t) claimed;
} hk_live_words_t;
#define HK_LIVE_WORD_SHIFT 10
#define HK_LIVE_WORDS_PER_SLAB ((unsigned)(HK_SLAB_BYTES >> HK_LIVE_WORD_SHIFT))
static_assert((size_t)1 << HK_LIVE_WORD_SHIFT == 64 * HK_BLOCK_ALIGNMENT, "a word has a bit for each block's start");

/* The place of a descriptor: its leaf, and its distance from the start of the leaf. */
typedef struct {
  uintptr_t leaf;
  uintptr_t within;
} hk_slab_place_t;

enum { hk_slab_bytes_shift = 7 };
static_assert(sizeof(hk_slab_t) == 1u << hk_slab_bytes_shift, "the shift is the descriptor's size");

/* Returns the place of the descriptor of the slab that contains `address`, by the root. In a build with checks that may
 * be any value; its bits from HK_ADDRESS_BITS on are ignored. Relaxed: a thread gets a pointer into a region after the
 * region was entered. */
HK_INLINE hk_slab_place_t hk_slab_place_by_root(const void *address) {
  uintptr_t value = (uintptr_t)address;
  size_t region = hk_address_bits(value) >> HK_REGION_SHIFT;
  hk_region_map_t *map = &hk_region_map;
  hk_slab_place_t place;
  place.within =
      (value >> (HK_SLAB_SHIFT - hk_slab_bytes_shift)) & ((uintptr_t)(HK_REGION_SLABS - 1) << hk_slab_bytes_shift);
  place.leaf = hk_add_relaxed_load((uintptr_t)map, &map->distance[region]);
  return place;
}

/* hk_slab_place_by_root that uses the window where the address lies in it, for the paths of every malloc and free. In
 * the window a slab that was not entered has a descriptor of its own, which says "not ours". */
HK_INLINE hk_slab_place_t hk_slab_place_of(const void *address) {
  if (HK_HARDENED) return hk_slab_place_by_root(address);
  uintptr_t offset = (uintptr_t)address - hk_region_window.start;
  if (HK_UNLIKELY(!hk_is_below_relaxed_value(offset, &hk_region_window.bytes))) return hk_slab_place_by_root(address);
  uintptr_t within = offset >> HK_SLAB_SHIFT << hk_slab_bytes_shift;
  return (hk_slab_place_t){.leaf = hk_region_window.leaf, .within = within};
}

/* Returns the descriptor at a place. The sum is part of each instruction that uses the result. */
HK_INLINE hk_slab_t *hk_slab_at(hk_slab_place_t *place) {
  HK_FOLD(place->within);
  return (hk_slab_t *)(place->leaf + place->within);
}

/* Returns the descriptor of the slab that contains `address`, as hk_slab_place_by_root finds it. */
HK_INLINE hk_slab_t *hk_slab_of(const void *address) {
  hk_slab_place_t place = hk_slab_place_by_root(address);
  return (hk_slab_t *)(place.leaf + place.within);
}

/* Returns the leaf of a region; the map's first member where the region has none. Another thread may publish the leaf
 * at this moment: the acquire load pairs with its compare-exchange (region_map.c). */
HK_INLINE hk_region_t *hk_region_map_leaf(size_t region) {
  intptr_t distance = hk_load_acquire(&hk_region_map.distance[region]);
  return (hk_region_t *)((uintptr_t)&hk_region_map + (uintptr_t)distance);
}

/* hk_slab_of for any address: the caller need not have it from the thread that entered its region. */
HK_INLINE hk_slab_t *hk_slab_of_any(uintptr_t address) {
  uintptr_t bits = hk_address_bits(address);
  return &hk_region_map_leaf(bits >> HK_REGION_SHIFT)->slab[(bits >> HK_SLAB_SHIFT) % HK_REGION_SLABS];
}

/* Forbids huge pages and writes for the map, and maps the window's leaves. Call it in the first thread, before another
 * thread begins and before a region is entered. */
void hk_region_map_init(void);

/* Gives each slab of a range a writable descriptor of its own. Start and length are whole slabs. Returns false when
 * the system refuses. Any thread, no lock. */
bool hk_region_map_enter(const void *start, size_t bytes);

/* Ends the window if a superslab lies outside of it. Any thread, no lock. */
void hk_region_map_note_superslab(uintptr_t start);

/* Returns the descriptors of the first region from `*region` on that has its own, and sets `*region` to its number.
 * Returns NULL when there is none. Any thread, no lock. */
hk_slab_t *hk_region_map_find(size_t *region);

/* Returns the descriptor of the slabs that `address` lies in, for an address whose own slab has none: only the first
 * slab of a large block has one, and the first and the last slab of a free extent. Searches downwards for the first
 * descriptor, and returns it if its bytes reach up to the address; they begin at `*start`. Else NULL. Slow in and
 * behind a block of many GiB. Any thread, no lock. */
hk_slab_t *hk_region_map_find_below(uintptr_t address, uintptr_t *start);

/* Returns the resident bytes of the map, as far as they were written to. It examines the whole map, so call it seldom.
 */
size_t hk_region_map_resident_bytes(void);

/* Returns the address space of the leaves and of the window, in bytes. */
size_t hk_region_map_mapped_bytes(void);

#endif /* HK_SPACE_REGION_MAP_H */
