/* api/free.c - L5. The slow half of free (alloc.h): blocks of other threads, runs, large and sampled blocks, and
 * misuse. */
#include <errno.h>

#include "api/alloc.h"
#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/sample_hook.h"
#include "api/verify.h"
#include "hakmem/hakmem.h"
#include "heap/mid.h"
#include "heap/remote.h"
#include "heap/spare.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/run.h"
#include "space/superslab.h"

/* Returns a lease without a heap when the thread is to free without one, or no heap can be had. */
static hk_thread_lease_t enter_to_free(hk_heap_t *owner) {
  return hk_thread_frees_without_heap(owner) ? (hk_thread_lease_t){.heap = NULL} : hk_lifecycle_enter();
}

static bool spare_run(hk_heap_t *heap, hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_stat_bump(&heap->stat, hk_stat_run_free, 1);
  hk_spare_put(heap, head);
  return true;
}

static bool free_run(hk_slab_t *head) {
  int saved_errno = errno; /* attaching a heap may change it */
  hk_thread_lease_t lease = enter_to_free(NULL);
  errno = saved_errno;
  bool freed = lease.heap != NULL ? spare_run(lease.heap, head) : hk_run_free(head);
  if (freed && lease.heap == NULL) hk_stat_add(hk_stat_run_free, 1);
  if (lease.heap != NULL) hk_thread_leave(lease);
  return freed;
}

/* Frees a small block for a thread without a heap, and one that the fast path found implausible. */
static void free_small(hk_slab_t *span, void *block) {
  int saved_errno = errno; /* attaching a heap may change it */
  hk_thread_lease_t lease = enter_to_free(hk_load_relaxed(&span->owner));
  if (lease.heap == NULL) {
    hk_remote_free_now(span, block);
  } else if (hk_load_relaxed(&span->owner) == lease.heap) { /* perhaps a heap that the thread has just adopted */
    hk_free_list_t *free_list = span->free_list;
    if (hk_free_list_push(free_list, block)) hk_bin_settle(lease.heap, span);
  } else {
    hk_remote_free(lease.heap, span, block);
  }
  if (lease.heap != NULL) hk_thread_leave(lease);
  errno = saved_errno;
}

static bool free_large(hk_slab_t *slab, void *block) {
  if (!hk_large_free(slab, block)) return false;
  hk_stat_add(hk_stat_large_free, 1);
  return true;
}

static void free_sampled(const hk_finding_t *finding, void *block) {
  if (hk_sample_hook_forget((uintptr_t)block, true)) {
    hk_free((void *)finding->start);
  } else {
    hk_misuse_address(hk_act_free, block);
  }
}

static HK_NOINLINE void free_unusual(void *block, hk_slab_t *slab) {
  if (block == NULL) return;
  if (hk_slab_state(slab) == hk_slab_run && (uintptr_t)block == hk_slab_start(slab) && free_run(slab)) return;
  hk_finding_t finding = hk_verify(block);
  if (finding.offset != 0) {
    free_sampled(&finding, block);
    return;
  }
  if (finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_small) {
    free_small(finding.slab, block);
    return;
  }
  bool is_large = finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_large;
  if (!(is_large && free_large(finding.slab, block))) hk_misuse_address(hk_act_free, block);
}

/* Returns whether the block is plausibly a live small block of another thread: by the fast path's tests. */
static bool is_plain_remote(const hk_heap_t *heap, hk_slab_t *slab, const void *block) {
  const hk_heap_t *owner = hk_load_relaxed(&slab->owner);
  if (owner == NULL || owner == heap || heap == HK_EMPTY_HEAP) return false;
  return hk_start_is_plausible((uint16_t)(uintptr_t)block, slab->inverse) && (uintptr_t)block >> HK_ADDRESS_BITS == 0 &&
         !hk_block_looks_free(block);
}

void hk_free_slow(void *block, hk_slab_t *slab) {
  hk_heap_t *heap = hk_thread_own();
  if (HK_LIKELY(is_plain_remote(heap, slab, block))) {
    hk_remote_free(heap, slab, block);
  } else {
    free_unusual(block, slab);
  }
}

/* The owner is the caller's heap. hk_thread_heap may be empty by now, while another thread examines this one
 * (heap/attachment.h). */
void hk_free_due(hk_slab_t *slab) {
  hk_heap_t *heap = hk_load_relaxed(&slab->owner);
  hk_heap_enter(heap);
  hk_bin_settle(heap, slab);
  hk_misuse_take_up(heap);
  hk_heap_leave(heap);
}

void hakmem_free(void *block) { hk_free(block); }
void hakmem_cfree(void *block) { hk_free(block); }
void hakmem_free_sized(void *block, size_t size) {
  (void)size;
  hk_free(block);
}
void hakmem_free_aligned_sized(void *block, size_t alignment, size_t size) {
  (void)alignment;
  (void)size;
  hk_free(block);
}
