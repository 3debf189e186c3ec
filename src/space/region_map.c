/* space/region_map.c - L3. See region_map.h. */
#include "space/region_map.h"

#include "base/atomic.h"
#include "os/os.h"

hk_region_map_t hk_region_map;

static _Atomic(size_t) leaf_count;

void hk_region_map_init(void) { hk_os_huge_keep_small(&hk_region_map, sizeof hk_region_map); }

bool hk_region_map_enter(const void *address) {
  size_t region = ((uintptr_t)address >> HK_REGION_SHIFT) & (HK_REGION_COUNT - 1);
  if (hk_load_acquire(&hk_region_map.distance[region]) != 0) return true;

  size_t alignment = HK_SLAB_BYTES; /* a leaf of its own cache lines, and never at distance 0 */
  void *leaf = hk_os_reserve_small(sizeof(hk_region_t), alignment);
  if (leaf == NULL) return false;
  intptr_t none = 0;
  intptr_t distance = (intptr_t)((uintptr_t)leaf - (uintptr_t)&hk_region_map);
  if (hk_publish_once(&hk_region_map.distance[region], &none, distance)) {
    (void)hk_add_relaxed(&leaf_count, 1);
  } else {
    (void)hk_os_unmap(leaf,
                      sizeof(hk_region_t)); /* another thread was first; a leaf kept by mistake is never touched */
  }
  return true;
}

size_t hk_region_map_mapped_bytes(void) { return hk_load_relaxed(&leaf_count) * sizeof(hk_region_t); }

static hk_slab_t *leaf_of(size_t region) {
  intptr_t distance = hk_load_acquire(&hk_region_map.distance[region]);
  return distance != 0 ? (hk_slab_t *)((uintptr_t)&hk_region_map + (uintptr_t)distance) : NULL;
}

hk_slab_t *hk_region_map_find(size_t *region) {
  for (; *region < HK_REGION_COUNT; (*region)++) {
    hk_slab_t *leaf = leaf_of(*region);
    if (leaf != NULL) return leaf;
  }
  return NULL;
}

/* A page of the root that was only read is the system's zero page, which is nobody's. */
size_t hk_region_map_resident_bytes(void) {
  size_t bytes = 0, page_bytes = hk_os_page_size(), last_page = SIZE_MAX;
  for (size_t region = 0; hk_region_map_find(&region) != NULL; region++) {
    bytes += hk_os_resident_bytes(leaf_of(region), sizeof(hk_region_t));
    size_t page = (uintptr_t)&hk_region_map.distance[region] / page_bytes;
    if (page != last_page) bytes += page_bytes;
    last_page = page;
  }
  return bytes;
}
