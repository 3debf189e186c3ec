/* api/reclaim.c - L6. See reclaim.h. */
#include "api/reclaim.h"

#include <stdint.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "base/atomic.h"
#include "heap/cut.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/trim.h"
#include "policy/stat.h"
#include "space/surplus.h"

/* Takes up what came home, which may close a sampled bin. What came for spans that have moved goes on to their owners. */
static void send_home(hk_heap_t *heap) {
  (void)hk_remote_drain(heap);
  hk_cut_recall(heap);
  hk_remote_flush(heap);
  hk_misuse_take_up(heap);
}

static void tidy(hk_heap_t *heap) {
  send_home(heap);
  hk_heap_trim(heap);
}

static void send_home_idle(hk_heap_t *heap) {
  hk_heap_enter_taken(heap);
  send_home(heap);
  hk_heap_leave(heap);
}

static void tidy_idle(hk_heap_t *heap) {
  hk_heap_enter_taken(heap);
  tidy(heap);
  hk_heap_leave(heap);
}

/* A block that is sent on once is home: before any heap is trimmed, each has sent on what it had. */
static void tidy_all(hk_heap_t *own) {
  send_home(own);
  hk_heap_visit_idle(send_home_idle);
  send_home(own);
  hk_heap_visit_idle(tidy_idle);
  tidy(own);
}

void hk_reclaim_idle_heaps(void) {
  hk_heap_visit_idle(send_home_idle);
  hk_heap_visit_idle(tidy_idle);
}

static uint64_t given_back_so_far(void) { return hk_load_relaxed(&hk_stat_process.value[hk_stat_given_back]); }

static void tidy_own_and_idle(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  tidy_all(lease.heap);
  hk_thread_leave(lease);
}

size_t hk_reclaim(size_t keep_bytes) {
  /* Releasing spans may already give memory back: what counts is the difference. */
  uint64_t before = given_back_so_far();
  if (hk_thread_is_leaving() && hk_thread_heap == HK_EMPTY_HEAP) {
    hk_reclaim_idle_heaps(); /* a heap made for this would be one more to tidy */
  } else {
    tidy_own_and_idle();
  }
  (void)hk_surplus_trim(keep_bytes);
  return given_back_so_far() - before;
}

void hk_reclaim_remote(void) {
  hk_remote_drain_idle();
  hk_heap_t *heap = hk_thread_heap;
  if (heap == HK_EMPTY_HEAP || !hk_remote_is_pending(heap)) return;
  hk_heap_enter(heap);
  hk_remote_drain(heap);
  hk_misuse_take_up(heap);
  hk_heap_leave(heap);
}
