/* heap/detach.c - L4. See detach.h; docs/concurrency.md has the argument for each order. */
#include "heap/detach.h"

#include "base/arithmetic.h"
#include "heap/remote.h"
#include "heap/thread.h"
#include "os/os.h"

static bool detach(hk_heap_t *heap) {
  if (!hk_attachment_take(&heap->attachment, HK_EMPTY_HEAP, &heap->busy)) return false;
  hk_heap_enter(heap);
  hk_store_relaxed(&heap->quiet.since_ms, 0); /* for the next thread that has it */
  (void)hk_remote_drain(heap);
  hk_thread_let_go(heap);
  return true;
}

/* ---- Which threads are quiet. */

/* Returns how often the heap's thread was in a slow path. */
static uint64_t slow_paths_of(hk_heap_t *heap) {
  static const hk_stat_id_t counted[] = {hk_stat_refill, hk_stat_remote_drain, hk_stat_run_alloc, hk_stat_run_free,
                                         hk_stat_slab_release};
  uint64_t sum = 0;
  for (unsigned i = 0; i < sizeof counted / sizeof *counted; i++) sum += hk_load_relaxed(&heap->stat.value[counted[i]]);
  return sum;
}

static bool is_worth(hk_heap_t *heap, const hk_detach_t *which) {
  if (hk_attachment_state(&heap->attachment) == hk_attachment_none) return false;
  return hk_load_relaxed(&heap->span_slabs) + hk_load_relaxed(&heap->spare_slabs) >= which->least_slabs;
}

/* Returns when the heap's thread will have been quiet for its time. */
static uint64_t due_ms(hk_heap_t *heap, const hk_detach_t *which) {
  uint64_t slow_paths = slow_paths_of(heap), since_ms = hk_load_relaxed(&heap->quiet.since_ms);
  if (since_ms == 0 || hk_load_relaxed(&heap->quiet.slow_paths) != slow_paths) {
    hk_store_relaxed(&heap->quiet.slow_paths, slow_paths);
    hk_store_relaxed(&heap->quiet.since_ms, since_ms = which->now_ms);
  }
  return hk_add_saturating(since_ms, which->asleep_ms << hk_load_relaxed(&heap->attachment.patience));
}

unsigned hk_detach_sleepers(const hk_detach_t *which) {
  unsigned count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_worth(heap, which) || due_ms(heap, which) > which->now_ms) continue;
    hk_store_relaxed(&heap->quiet.since_ms, which->now_ms); /* not again at once if its thread is awake */
    count += detach(heap);
  }
  return count;
}

uint64_t hk_detach_next_due(const hk_detach_t *which) {
  uint64_t next_ms = UINT64_MAX;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_worth(heap, which)) next_ms = hk_smaller(next_ms, due_ms(heap, which));
  }
  return next_ms;
}

void hk_detach_repair(void) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) hk_attachment_repair(&heap->attachment);
}
