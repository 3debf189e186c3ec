/* space/locked.c - L3. See locked.h. */
#include "space/locked.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "os/os.h"
#include "space/region_map.h"

static _Atomic(bool) is_map_purged;

/* Purges the part of the region map that says "not ours": the lock has made earlier mappings resident too. That part is
 * never written, so its contents stay zero. */
static void purge_map(void) {
  if (hk_exchange_acq_rel(&is_map_purged, true)) return;
  uintptr_t start = (uintptr_t)&hk_region_map.nothing, end = start + sizeof hk_region_map.nothing;
  start = hk_align_up(start, hk_os_page_size());
  end = hk_align_down(end, hk_os_page_size());
  (void)hk_os_purge_if_locked((void *)start, end - start);
}

void *hk_locked_reserve(size_t bytes, size_t alignment) {
  void *start = hk_os_reserve(bytes, alignment);
  if (start != NULL && hk_os_purge_if_locked(start, bytes)) purge_map();
  return start;
}
