/* space/short_span.c - L3. See short_span.h. */
#include "space/short_span.h"

#include "base/bits.h"
#include "base/mask.h"
#include "base/panic.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/shard.h"
#include "policy/stat.h"
#include "space/dirty.h"
#include "space/huge.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/shortage.h"
#include "space/superslab.h"
#include "space/superslab_index.h"

/* The slabs of short spans. Each is a mapping. */
static _Atomic(uint32_t) short_count;

static void count(uint32_t change) { (void)hk_add_relaxed(&short_count, change); }

/* ---- New ones. */

static hk_slab_t *enter(uintptr_t start, hk_superslab_t *record) {
  unsigned shard = hk_shard_current();
  uint64_t now_ms = hk_os_coarse_ms();
  hk_slab_t *slab = hk_slab_of((void *)start);
  hk_extent_t room = {.start = start, .bytes = HK_SLAB_BYTES, .is_zero = true};
  hk_superslab_index_lock_all();
  bool is_record_used = hk_superslab_index_enter_locked(record, room, shard);
  shard = hk_superslab_index_shard(slab->superslab); /* another one, when that has a part of the superslab */
  slab->superslab->has_hole = true;
  hk_superslab_index_claim_locked(slab->superslab, hk_mask_range((unsigned)(slab - slab->superslab->slabs), 1));
  hk_dirty_note_touched_locked(hk_superslab_index_account(slab->superslab), HK_SLAB_BYTES);
  hk_superslab_index_unlock_all_but(shard);
  hk_purge_end_change_of(shard, now_ms);
  if (!is_record_used) hk_superslab_index_spare_record(record);
  return slab;
}

/* Returns 0 when the system refuses. */
static uintptr_t map(size_t bytes) {
  void *start = hk_os_reserve(bytes, HK_SLAB_BYTES);
  if (start == NULL || hk_region_map_enter(start, HK_SLAB_BYTES)) return (uintptr_t)start;
  (void)hk_os_unmap(start, bytes);
  return 0;
}

hk_slab_t *hk_short_span_acquire(size_t bytes) {
  HK_ASSERT(bytes > 0 && bytes <= HK_SLAB_BYTES, "a short span has a part of a slab");
  if (hk_load_relaxed(&short_count) >= HK_SHORTAGE_MAPPINGS_MAX) return NULL;
  hk_superslab_t *record = hk_superslab_index_take_record();
  if (record == NULL) return NULL;
  uintptr_t start = map(bytes);
  if (start == 0) {
    hk_superslab_index_spare_record(record);
    return NULL;
  }
  hk_slab_t *slab = enter(start, record);
  slab->is_zero = true;
  slab->slab_count = 1;
  hk_store_relaxed(&slab->bytes, bytes);
  if (hk_short_span_is(slab)) count(1);
  return slab;
}

/* ---- Cuts. */

/* Returns the mapped bytes of slab `i` of a short span. */
static size_t mapped_bytes(const hk_slab_t *span, unsigned i) {
  if (i + 1u == span->slab_count) return hk_short_span_last_bytes(span);
  size_t used_bytes = hk_class_blocks_per_slab(span->class_index) * hk_class_bytes(span->class_index);
  return hk_align_up(used_bytes, hk_os_page_size());
}

/* Unmaps the ends of all slabs but the last one. An end that the system refuses to take is lost. */
static void unmap_other_ends(const hk_slab_t *span) {
  for (unsigned i = 0; i + 1u < span->slab_count; i++) {
    size_t bytes = mapped_bytes(span, i);
    if (bytes < HK_SLAB_BYTES) (void)hk_os_unmap((void *)(hk_slab_start(&span[i]) + bytes), HK_SLAB_BYTES - bytes);
  }
}

/* Ends the huge page, while its addresses are all there. */
static void begin_holes(hk_superslab_t *superslab) {
  unsigned shard = hk_superslab_index_lock_of(superslab);
  bool is_forbidden_again = hk_huge_take_apart_locked(superslab);
  superslab->has_hole = true;
  superslab->full_since_ms = 0; /* a look at it that is under way makes no huge page */
  hk_superslab_index_unlock(shard);
  if (is_forbidden_again) hk_huge_forbid_again(superslab->start);
}

hk_shorten_t hk_short_span_shorten(hk_slab_t *span, size_t bytes) {
  size_t old_bytes = hk_short_span_last_bytes(span);
  HK_ASSERT(bytes > 0 && bytes <= old_bytes, "a span keeps a part of its last slab");
  uintptr_t start = hk_slab_start(span + span->slab_count - 1);
  if (bytes == old_bytes) return hk_shorten_nothing;
  bool is_new = old_bytes == HK_SLAB_BYTES;
  if (is_new && hk_load_relaxed(&short_count) >= HK_SHORTAGE_MAPPINGS_MAX) return hk_shorten_refused;
  begin_holes(span->superslab);
  if (!hk_os_unmap((void *)(start + bytes), old_bytes - bytes)) return hk_shorten_refused;
  hk_store_relaxed(&span->bytes, bytes);
  if (!is_new) return hk_shorten_done;
  count(span->slab_count);
  unmap_other_ends(span);
  return hk_shorten_done;
}

/* ---- The end. */

static void leave_superslab(hk_slab_t *span) {
  hk_superslab_t *superslab = span->superslab;
  uint32_t bits = hk_mask_range((unsigned)(span - superslab->slabs), span->slab_count);
  uint64_t now_ms = hk_os_coarse_ms();
  unsigned shard = hk_superslab_index_lock_of(superslab);
  hk_lock_acquire(hk_lock_space);
  hk_superslab_index_detach_used_locked(superslab, bits);
  hk_lock_release(hk_lock_space);
  hk_purge_end_change_of(shard, now_ms);
}

/* Addresses are lost where the system refuses; at a mapping's end it does not. */
static void unmap(uintptr_t start, size_t bytes) {
  if (!hk_os_unmap((void *)start, bytes)) (void)hk_os_purge((void *)start, bytes);
}

void hk_short_span_release(hk_slab_t *span) {
  uintptr_t start = hk_slab_start(span);
  unsigned slab_count = span->slab_count;
  leave_superslab(span);
  for (unsigned i = slab_count; i-- > 0;) {
    size_t bytes = mapped_bytes(span, i);
    hk_slab_set_state(&span[i], hk_slab_none); /* before another thread has the addresses */
    unmap(start + i * HK_SLAB_BYTES, bytes);
  }
  count(-(uint32_t)slab_count);
}
