/* space/region_map.c - L3. See region_map.h. */
#include "space/region_map.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "os/os.h"

hk_region_map_t hk_region_map;

/* Not zero, so that it lies beside hk_secret, which each malloc and free reads too. */
hk_region_window_t hk_region_window = {.start = (uintptr_t)1 << HK_ADDRESS_BITS};

/* The leaves outside of the window. */
static _Atomic(size_t) leaf_count;

/* Chosen: the descriptors of this many superslabs become writable in one call, because ranges are mapped side by side.
 * They are 64 KiB of addresses; a page that is not written to stays untouched. */
#define GROUP_SUPERSLABS ((size_t)16)
#define GROUP_SLABS (GROUP_SUPERSLABS * HK_SUPERSLAB_SLABS)

/* The groups with writable descriptors, as number plus one, each at its number modulo RECENT_COUNT. Descriptors stay
 * writable, so addresses that come and go cost one system call. */
#define RECENT_COUNT 64
static _Atomic(uintptr_t) recent[RECENT_COUNT];

/* Chosen: the window has 2 GiB, whose leaves are 4 MiB of addresses. A program that locks its memory, or limits its
 * addresses after the start, pays for them. */
#define WINDOW_REGIONS ((size_t)((2 * HK_GIB) >> HK_REGION_SHIFT))
#define WINDOW_LEAVES_BYTES (WINDOW_REGIONS * sizeof(hk_region_t))

/* The kernel hands addresses out downwards, so the heap comes to lie right below the leaves. */
static void map_window(void) {
  if (HK_HARDENED || hk_os_limits_addresses()) return;
  uintptr_t leaf = (uintptr_t)hk_os_reserve_readable(WINDOW_LEAVES_BYTES, HK_SLAB_BYTES);
  if (leaf == 0) return;
  size_t end = (leaf >> HK_REGION_SHIFT) + 1, first = end > WINDOW_REGIONS ? end - WINDOW_REGIONS : 0;
  hk_region_window.start = first << HK_REGION_SHIFT;
  hk_region_window.leaf = leaf;
  hk_store_relaxed(&hk_region_window.bytes, WINDOW_REGIONS << HK_REGION_SHIFT);
}

void hk_region_map_init(void) {
  hk_os_huge_keep_small(&hk_region_map, sizeof hk_region_map);
  hk_os_forbid_writes(&hk_region_map, sizeof hk_region_map);
  map_window();
}

/* A leaf: its descriptors, and in a hardened build the live bits, with a slab on either side that is never writable. */
#define LIVE_BYTES_PER_SLAB (HK_HARDENED ? HK_LIVE_WORDS_PER_SLAB * sizeof(hk_live_words_t) : 0)
#define LEAF_BYTES (sizeof(hk_region_t) + HK_REGION_SLABS * LIVE_BYTES_PER_SLAB)
#define GUARD_BYTES (HK_HARDENED ? HK_SLAB_BYTES : 0)

static bool allow_writes(uintptr_t start, size_t bytes) {
  uintptr_t first = hk_align_down(start, hk_os_page_size());
  return hk_os_allow_writes((void *)first, hk_align_up(start + bytes, hk_os_page_size()) - first);
}

/* Makes the entry's page writable. A page that other variables share was never made read-only. */
static bool allow_entry(const _Atomic(intptr_t) *entry) {
  uintptr_t first = hk_align_down((uintptr_t)entry, hk_os_page_size()), end = first + hk_os_page_size();
  uintptr_t map = (uintptr_t)&hk_region_map;
  return first < map || end > map + sizeof hk_region_map || hk_os_allow_writes((void *)first, end - first);
}

static hk_slab_t *leaf_of(size_t region) {
  hk_region_t *leaf = hk_region_map_leaf(region);
  return leaf != &hk_region_map.nothing ? leaf->slab : NULL;
}

/* Returns false when another thread was first. */
static bool publish_leaf(size_t region, uintptr_t leaf) {
  intptr_t none = 0;
  return hk_publish_once(&hk_region_map.distance[region], &none, (intptr_t)(leaf - (uintptr_t)&hk_region_map));
}

/* Returns the region's leaf, made by this thread or by another; NULL when the system refuses. */
static hk_slab_t *make_leaf(size_t region) {
  if (!allow_entry(&hk_region_map.distance[region])) return NULL;
  uintptr_t in_window = region - (hk_region_window.start >> HK_REGION_SHIFT);
  if (hk_region_window.leaf != 0 && in_window < WINDOW_REGIONS) {
    (void)publish_leaf(region, hk_region_window.leaf + in_window * sizeof(hk_region_t));
    return leaf_of(region);
  }
  size_t alignment = HK_SLAB_BYTES; /* a leaf has cache lines of its own, and its distance is never 0 */
  char *mapping = hk_os_reserve_readable(LEAF_BYTES + 2 * GUARD_BYTES, alignment);
  if (mapping == NULL) return NULL;
  if (publish_leaf(region, (uintptr_t)mapping + GUARD_BYTES)) {
    (void)hk_add_relaxed(&leaf_count, 1);
  } else {
    /* Another thread was first. If the system refuses to unmap the leaf, it stays untouched. */
    (void)hk_os_unmap(mapping, LEAF_BYTES + 2 * GUARD_BYTES);
  }
  return leaf_of(region);
}

static bool enter(size_t region, unsigned first, unsigned count) {
  hk_slab_t *leaf = leaf_of(region);
  if (leaf == NULL) leaf = make_leaf(region);
  if (leaf == NULL || !allow_writes((uintptr_t)&leaf[first], count * sizeof *leaf)) return false;
  if (!HK_HARDENED) return true;
  uintptr_t bits = (uintptr_t)leaf + sizeof(hk_region_t) + first * LIVE_BYTES_PER_SLAB;
  return allow_writes(bits, count * LIVE_BYTES_PER_SLAB);
}

/* The numbers of the groups that a range of slabs touches. */
typedef struct {
  uintptr_t first;
  uintptr_t last;
} groups_t;

static groups_t groups_of(size_t unit, size_t end) {
  static_assert(HK_REGION_SLABS % GROUP_SLABS == 0, "a group lies in one region");
  return (groups_t){unit / GROUP_SLABS, (end - 1) / GROUP_SLABS};
}

static bool is_recent(groups_t groups) {
  if (groups.last - groups.first >= RECENT_COUNT) return false;
  for (uintptr_t i = groups.first; i <= groups.last; i++) {
    if (hk_load_acquire(&recent[i % RECENT_COUNT]) != i + 1) return false;
  }
  return true;
}

static void note_recent(groups_t groups) {
  if (groups.last - groups.first >= RECENT_COUNT) return;
  for (uintptr_t i = groups.first; i <= groups.last; i++) hk_store_release(&recent[i % RECENT_COUNT], i + 1);
}

/* Enters the slabs from `unit` to `end`, in every region that they touch. */
static bool enter_all(size_t unit, size_t end) {
  while (unit < end) {
    size_t first = unit % HK_REGION_SLABS, here = HK_REGION_SLABS - first;
    if (here > end - unit) here = end - unit;
    if (!enter(unit / HK_REGION_SLABS, (unsigned)first, (unsigned)here)) return false;
    unit += here;
  }
  return true;
}

/* Enters whole groups, or the requested slabs alone where the system refuses that: a limit may be near. */
bool hk_region_map_enter(const void *start, size_t bytes) {
  size_t unit = ((uintptr_t)start & (((uintptr_t)1 << HK_ADDRESS_BITS) - 1)) >> HK_SLAB_SHIFT;
  size_t end = unit + bytes / HK_SLAB_BYTES;
  groups_t groups = groups_of(unit, end);
  if (is_recent(groups)) return true;
  if (!enter_all(groups.first * GROUP_SLABS, (groups.last + 1) * GROUP_SLABS)) return enter_all(unit, end);
  note_recent(groups);
  return true;
}

/* Writes at most once: every free of every thread reads the line. */
void hk_region_map_note_superslab(uintptr_t start) {
  size_t bytes = hk_load_relaxed(&hk_region_window.bytes);
  if (bytes != 0 && start - hk_region_window.start >= bytes) hk_store_relaxed(&hk_region_window.bytes, 0);
}

size_t hk_region_map_mapped_bytes(void) {
  size_t window_bytes = hk_region_window.leaf != 0 ? WINDOW_LEAVES_BYTES : 0;
  return window_bytes + hk_load_relaxed(&leaf_count) * LEAF_BYTES;
}

hk_slab_t *hk_region_map_find(size_t *region) {
  for (; *region < HK_REGION_COUNT; (*region)++) {
    hk_slab_t *leaf = leaf_of(*region);
    if (leaf != NULL) return leaf;
  }
  return NULL;
}

/* A large block has leaves in all its regions, so the search ends at a region without one. */
hk_slab_t *hk_region_map_find_below(uintptr_t address, uintptr_t *start) {
  uintptr_t unit = hk_align_down(address, HK_SLAB_BYTES);
  for (; unit >= HK_SLAB_BYTES && leaf_of(unit >> HK_REGION_SHIFT) != NULL; unit -= HK_SLAB_BYTES) {
    hk_slab_t *slab = hk_slab_of_any(unit);
    if (hk_slab_state(slab) == hk_slab_none) continue;
    *start = unit;
    return address - unit < hk_load_relaxed(&slab->bytes) ? slab : NULL;
  }
  return NULL;
}

/* A page of the root that was only read is the system's zero page, which the kernel does not count as resident. */
size_t hk_region_map_resident_bytes(void) {
  size_t bytes = 0, page_bytes = hk_os_page_size(), last_page = SIZE_MAX;
  for (size_t region = 0; hk_region_map_find(&region) != NULL; region++) {
    bytes += hk_os_resident_bytes(leaf_of(region), LEAF_BYTES);
    size_t page = (uintptr_t)&hk_region_map.distance[region] / page_bytes;
    if (page != last_page) bytes += page_bytes;
    last_page = page;
  }
  return bytes;
}
