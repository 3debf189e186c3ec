/* api/process_purge.c - L5. See process_purge.h. */
#include "api/process_purge.h"

#include <stdint.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/heap_flush.h"
#include "heap/part.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/sample_countdown.h"
#include "os/os.h"
#include "policy/stat.h"
#include "space/class_slabs.h"
#include "space/lone_mapping.h"
#include "space/purge.h"
#include "space/shortage.h"

/* Drains the heap's incoming list, which may close a sampled bin. Sends blocks of spans that have moved on to their
 * owners. */
static void drain(hk_heap_t *heap) {
  (void)hk_remote_drain(heap);
  hk_sample_countdown_recall(heap);
  hk_remote_flush(heap);
  hk_misuse_report_damaged(heap);
}

static void flush_heap(hk_heap_t *heap) {
  drain(heap);
  hk_heap_flush(heap);
}

static void drain_idle(hk_heap_t *heap) {
  hk_heap_enter_taken(heap);
  drain(heap);
  hk_heap_leave(heap);
}

static void flush_idle(hk_heap_t *heap) {
  hk_heap_enter_taken(heap);
  flush_heap(heap);
  hk_store_relaxed(&heap->is_flushed, true);
  hk_heap_leave(heap);
}

/* Drains all heaps before it flushes any: a drain sends blocks whose spans have moved to the heaps that have these
 * now. */
static void flush_all(hk_heap_t *own) {
  drain(own);
  hk_heap_visit_idle(drain_idle);
  drain(own);
  hk_heap_visit_idle(flush_idle);
  flush_heap(own);
}

/* Flushes the calling thread's parts of named heaps and tags. */
static void flush_parts(void) { hk_part_visit_own(flush_heap); }

/* Purges the memory that a hardened build keeps apart from the sums of space/dirty.h. */
static void purge_apart(void) {
  if (!HK_HARDENED) return;
  hk_class_slabs_purge();
  hk_lone_mapping_purge();
}

void hk_process_purge_idle_heaps(void) {
  hk_heap_visit_idle(drain_idle);
  hk_heap_visit_idle(flush_idle);
  purge_apart();
}

static uint64_t purged_so_far(void) { return hk_load_relaxed(&hk_stat_process.value[hk_stat_purged]); }

static void flush_own_and_idle(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  flush_all(lease.heap);
  hk_thread_leave(lease);
  flush_parts();
}

size_t hk_process_purge(size_t keep_bytes) {
  /* Releasing spans may purge already: the difference counts. */
  uint64_t before = purged_so_far();
  if (hk_thread_keeps_no_heap() && hk_thread_own() == HK_EMPTY_HEAP) {
    hk_process_purge_idle_heaps(); /* attaching a heap here would only make one more to flush */
  } else {
    flush_own_and_idle();
  }
  purge_apart();
  (void)hk_purge_down_to(keep_bytes);
  return purged_so_far() - before;
}

void hk_process_flush_named(hk_named_t *named) { hk_part_visit(named, flush_heap); }

size_t hk_process_purge_named(hk_named_t *named) {
  uint64_t before = purged_so_far();
  hk_process_flush_named(named);
  (void)hk_purge_down_to(0);
  return purged_so_far() - before;
}

/* ---- Sleeping threads. */

/* Chosen: a heap with fewer slabs is not examined. Near a memory limit every heap is, and after a shorter sleep. */
#define LEAST_SLABS 4
#define NEAR_LIMIT_MS 100

/* Chosen: a thread that grows near a memory limit takes heaps of threads that have slept for this long. */
#define GROWING_MS 1

static bool is_near_limit(void) { return hk_load_relaxed(&hk_dirty_is_near_limit); }

hk_detach_terms_t hk_process_purge_detach_terms(uint64_t now_ms) {
  uint64_t asleep_ms = hk_dirty_asleep_ms();
  if (!is_near_limit())
    return (hk_detach_terms_t){.now_ms = now_ms, .asleep_ms = asleep_ms, .least_slabs = LEAST_SLABS};
  return (hk_detach_terms_t){.now_ms = now_ms, .asleep_ms = hk_smaller(asleep_ms, NEAR_LIMIT_MS), .least_slabs = 1};
}

static void detach_heaps(const hk_detach_terms_t *terms) {
  if (hk_detach_sleepers(terms) > 0 && is_near_limit()) hk_process_purge_idle_heaps();
}

void hk_process_purge_detach_sleepers(uint64_t now_ms) {
  hk_detach_terms_t terms = hk_process_purge_detach_terms(now_ms);
  detach_heaps(&terms);
}

void hk_process_purge_near_limit(void) {
  hk_store_relaxed(&hk_dirty_is_heap_purge_due, false);
  detach_heaps(&(hk_detach_terms_t){.now_ms = hk_os_coarse_ms(), .asleep_ms = GROWING_MS, .least_slabs = 1});
}

size_t hk_process_purge_everywhere(size_t keep_bytes) {
  uint64_t before = purged_so_far();
  (void)hk_detach_sleepers(&(hk_detach_terms_t){.now_ms = hk_os_coarse_ms(), .asleep_ms = 0, .least_slabs = 1});
  (void)hk_process_purge(keep_bytes);
  return purged_so_far() - before;
}

/* ---- Before a request fails. */

/* When a request was last refused. A thread that runs gives up its free memory in its next slow path. */
static _Atomic(uint64_t) refused_ms;

/* Gives up the pages of the heap's spans that were never carved. Where that succeeds, addresses are short, and a
 * shortage begins. Where mappings are short instead, the system refuses to unmap a part of one. */
static void shorten_spans(hk_heap_t *heap) {
  if (hk_heap_shorten(heap)) hk_shortage_begin();
}

/* Drains the heap too, because hk_heap_visit_idle repeats the visit while blocks wait for the heap. */
static void shorten_idle(hk_heap_t *heap) {
  hk_heap_enter_taken(heap);
  flush_heap(heap);
  shorten_spans(heap);
  hk_heap_leave(heap);
}

static void shorten_own(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  shorten_spans(lease.heap);
  hk_thread_leave(lease);
}

/* Detaches heaps of threads that have slept for a moment. Does so once in a tick of the clock, because it opens
 * files. */
static void detach_short_sleepers(void) {
  uint64_t now_ms = hk_os_coarse_ms();
  if (hk_exchange_acq_rel(&refused_ms, now_ms) == now_ms) return;
  (void)hk_detach_sleepers(&(hk_detach_terms_t){.now_ms = now_ms, .asleep_ms = GROWING_MS, .least_slabs = 1});
}

void hk_process_purge_all(bool may_be_short) {
  if (may_be_short) detach_short_sleepers();
  (void)hk_process_purge(0);
  if (may_be_short) {
    hk_heap_visit_idle(shorten_idle);
    shorten_own();
  }
  (void)hk_purge_unmap_free();
}

void hk_process_purge_after_refusal(void) {
  hk_heap_t *heap = hk_thread_own();
  if (heap == HK_EMPTY_HEAP || hk_load_relaxed(&refused_ms) <= heap->shortened_ms) return;
  heap->shortened_ms = hk_os_coarse_ms();
  hk_heap_enter(heap);
  flush_heap(heap);
  shorten_spans(heap);
  hk_heap_leave(heap);
  (void)hk_purge_unmap_free();
}

void hk_process_purge_drain_own(void) {
  hk_remote_drain_idle_if_due();
  hk_heap_t *heap = hk_thread_own(); /* read last: until the thread enters its heap, an examiner may take it */
  if (heap == HK_EMPTY_HEAP || !hk_heap_has_incoming(heap)) return;
  hk_heap_enter(heap);
  hk_remote_drain(heap);
  hk_misuse_report_damaged(heap);
  hk_heap_leave(heap);
}
