/* heap/detach.c - L4. See detach.h; docs/concurrency.md has the argument for each order. */
#include "heap/detach.h"

#include "base/arithmetic.h"
#include "heap/remote.h"
#include "heap/thread.h"
#include "os/os.h"

static bool try_detach(hk_heap_t *heap) {
  if (!hk_attachment_take(&heap->attachment, heap, HK_EMPTY_HEAP, &heap->is_busy)) return false;
  hk_heap_enter(heap);
  hk_store_relaxed(&heap->quiet.since_ms, 0); /* for the next thread that has it */
  (void)hk_remote_drain(heap);
  hk_thread_give_back(heap);
  return true;
}

/* The examiner may be a thread of the program. If it were cancelled here, the heap's thread would wait for it at its
 * end. */
static bool detach(hk_heap_t *heap) {
  int type = hk_os_cancel_defer();
  bool is_detached = try_detach(heap);
  hk_os_cancel_restore(type);
  return is_detached;
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

/* Returns whether the heap is worth detaching: it has enough slabs, or blocks in its outbox, which keep spans of other
 * heaps in use. */
static bool is_worth_it(hk_heap_t *heap, const hk_detach_terms_t *terms) {
  if (hk_attachment_state(&heap->attachment) == hk_attachment_none) return false;
  if (hk_load_relaxed(&heap->batch_count) > 0) return true;
  return hk_load_relaxed(&heap->span_slabs) + hk_heap_spare_slabs(heap) >= terms->least_slabs;
}

/* Returns since when the heap's thread was seen in no slow path. */
static uint64_t quiet_since_ms(hk_heap_t *heap, uint64_t now_ms) {
  uint64_t slow_paths = slow_paths_of(heap), since_ms = hk_load_relaxed(&heap->quiet.since_ms);
  if (since_ms != 0 && hk_load_relaxed(&heap->quiet.slow_paths) == slow_paths) return since_ms;
  hk_store_relaxed(&heap->quiet.slow_paths, slow_paths);
  hk_store_relaxed(&heap->quiet.since_ms, now_ms);
  return now_ms;
}

/* Returns when the heap's thread will have been quiet for its time. */
static uint64_t due_ms(hk_heap_t *heap, const hk_detach_terms_t *terms) {
  uint64_t least_ms = terms->asleep_ms << hk_load_relaxed(&heap->attachment.patience);
  return hk_add_saturating(quiet_since_ms(heap, terms->now_ms), least_ms);
}

unsigned hk_detach_sleepers(const hk_detach_terms_t *terms) {
  unsigned count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_worth_it(heap, terms) || due_ms(heap, terms) > terms->now_ms) continue;
    hk_store_relaxed(&heap->quiet.since_ms, terms->now_ms); /* not again at once if its thread is awake */
    count += detach(heap);
  }
  return count;
}

/* Chosen: the heaps that hk_detach_one looks at, and those of them whose threads it examines. An examination takes
 * about as long as a new heap's page faults. */
#define LOOKS 8
#define EXAMINATIONS 2

/* The heap that hk_detach_one looks at next; NULL: the first. Threads may overwrite each other's. */
static _Atomic(hk_heap_t *) next_look;

/* Returns whether the heap's thread has been quiet long enough to lose it: at once the first time, then after 1 ms, 3,
 * 7 and so on. So a thread that sleeps for a moment at a time soon keeps its heap. */
static bool may_lose(hk_heap_t *heap, uint64_t now_ms) {
  if (hk_attachment_state(&heap->attachment) == hk_attachment_none) return false;
  uint64_t least_ms = (UINT64_C(1) << hk_load_relaxed(&heap->attachment.patience)) - 1;
  return quiet_since_ms(heap, now_ms) + least_ms <= now_ms;
}

bool hk_detach_one(uint64_t now_ms) {
  bool is_detached = false;
  hk_heap_t *heap = hk_load_acquire(&next_look); /* with the store below, whose thread saw the heap's record */
  for (unsigned looks = 0, left = EXAMINATIONS; looks < LOOKS && left > 0 && !is_detached; looks++) {
    if (heap == NULL) heap = hk_heap_first();
    if (may_lose(heap, now_ms)) {
      left--;
      is_detached = detach(heap);
    }
    heap = heap->all_next;
  }
  hk_store_release(&next_look, heap);
  return is_detached;
}

void hk_detach_overdue(void) {
  hk_heap_t *heap = hk_exchange_acq_rel(&hk_remote_overdue, NULL);
  if (heap != NULL && !hk_thread_has(heap)) (void)detach(heap);
}

void hk_detach_loosen_all(void) {
  int type = hk_os_cancel_defer(); /* as in detach */
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next)
    hk_attachment_loosen(&heap->attachment, heap, HK_EMPTY_HEAP);
  hk_os_cancel_restore(type);
}

uint64_t hk_detach_next_due(const hk_detach_terms_t *terms) {
  uint64_t next_ms = UINT64_MAX;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_worth_it(heap, terms)) next_ms = hk_smaller(next_ms, due_ms(heap, terms));
  }
  return next_ms;
}

void hk_detach_repair(void) {
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) hk_attachment_repair(&heap->attachment);
}
