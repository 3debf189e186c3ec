/* api/process_purge.c - L5. See process_purge.h. */
#include "api/process_purge.h"

#include <stdint.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/heap_purge.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/sample_countdown.h"
#include "os/os.h"
#include "policy/stat.h"
#include "space/purge.h"

/* Takes up what came home, which may close a sampled bin. What came for spans that have moved goes on to their
 * owners. */
static void send_home(hk_heap_t *heap) {
  (void)hk_remote_drain(heap);
  hk_sample_countdown_recall(heap);
  hk_remote_flush(heap);
  hk_misuse_take_up(heap);
}

static void tidy(hk_heap_t *heap) {
  send_home(heap);
  hk_heap_purge(heap);
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

void hk_process_purge_idle_heaps(void) {
  hk_heap_visit_idle(send_home_idle);
  hk_heap_visit_idle(tidy_idle);
}

static uint64_t given_back_so_far(void) { return hk_load_relaxed(&hk_stat_process.value[hk_stat_purged]); }

static void tidy_own_and_idle(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  tidy_all(lease.heap);
  hk_thread_leave(lease);
}

size_t hk_process_purge(size_t keep_bytes) {
  /* Releasing spans may already give memory back: what counts is the difference. */
  uint64_t before = given_back_so_far();
  if (hk_thread_is_leaving() && hk_thread_own() == HK_EMPTY_HEAP) {
    hk_process_purge_idle_heaps(); /* a heap made for this would be one more to tidy */
  } else {
    tidy_own_and_idle();
  }
  (void)hk_purge_down_to(keep_bytes);
  return given_back_so_far() - before;
}

/* Chosen: a heap that has fewer slabs is not worth a look at its thread; near a limit each one is, and sooner. */
#define LEAST_SLABS 4
#define NEAR_LIMIT_MS 100

/* Chosen: a thread that grows near a limit waits for none that sleeps. */
#define GROWING_MS 1

static bool is_near_limit(void) { return hk_load_relaxed(&hk_idle_is_near_limit); }

hk_detach_t hk_process_purge_which(uint64_t now_ms) {
  uint64_t asleep_ms = hk_idle_asleep_ms();
  if (!is_near_limit()) return (hk_detach_t){.now_ms = now_ms, .asleep_ms = asleep_ms, .least_slabs = LEAST_SLABS};
  return (hk_detach_t){.now_ms = now_ms, .asleep_ms = hk_smaller(asleep_ms, NEAR_LIMIT_MS), .least_slabs = 1};
}

static void take_heaps(const hk_detach_t *which) {
  if (hk_detach_sleepers(which) > 0 && is_near_limit()) hk_process_purge_idle_heaps();
}

void hk_process_purge_from_sleepers(uint64_t now_ms) {
  hk_detach_t which = hk_process_purge_which(now_ms);
  take_heaps(&which);
}

void hk_process_purge_near_limit(void) {
  hk_store_relaxed(&hk_idle_wants_heaps, false);
  take_heaps(&(hk_detach_t){.now_ms = hk_os_coarse_ms(), .asleep_ms = GROWING_MS, .least_slabs = 1});
}

size_t hk_process_purge_everywhere(size_t keep_bytes) {
  uint64_t before = given_back_so_far();
  (void)hk_detach_sleepers(&(hk_detach_t){.now_ms = hk_os_coarse_ms(), .asleep_ms = 0, .least_slabs = 1});
  (void)hk_process_purge(keep_bytes);
  return given_back_so_far() - before;
}

void hk_process_purge_remote(void) {
  hk_remote_drain_idle();
  hk_heap_t *heap = hk_thread_own();
  if (heap == HK_EMPTY_HEAP || !hk_remote_is_pending(heap)) return;
  hk_heap_enter(heap);
  hk_remote_drain(heap);
  hk_misuse_take_up(heap);
  hk_heap_leave(heap);
}
