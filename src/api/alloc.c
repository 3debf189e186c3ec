/* api/alloc.c - L6. See alloc.h. */
#include "api/alloc.h"

#include <errno.h>
#include <string.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/purger.h"
#include "api/reclaim.h"
#include "api/verify.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "heap/mid.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "policy/stat.h"
#include "space/big.h"
#include "space/run.h"
#include "space/superslab.h"

static void *out_of_memory(void) {
  hk_stat_add(hk_stat_out_of_memory, 1);
  errno = ENOMEM;
  return NULL;
}

/* ---- Allocation. */

static hk_block_t *pop(hk_heap_t *heap, unsigned class_index) {
  size_t bin_offset = class_index * sizeof(hk_sink_t);
  return hk_class_is_mid(class_index) ? hk_bin_pop_mid(heap, bin_offset) : hk_bin_pop(heap, bin_offset);
}

/* Pops, and fills the bin as often as it takes: a damaged block costs its list, not the request. */
static void *pop_or_refill(hk_heap_t *heap, unsigned class_index) {
  hk_sink_t *bin = &heap->bin[class_index];
  if (hk_class_is_mid(class_index)) bin->mark = 0; /* an adopted heap's list is of no refill that the caller knows */
  for (;;) {
    hk_block_t *block = pop(heap, class_index);
    if (block != NULL) return block;
    if (bin->free != HK_LIST_END) {
      hk_misuse_damage(bin->free);
      bin->free = HK_LIST_END;
      if (hk_class_is_mid(class_index)) bin->countdown = heap->state[class_index].room;
    }
    bool filled = hk_refill(heap, class_index);
    hk_misuse_take_up(heap);
    if (!filled) return NULL;
  }
}

static void *try_small(unsigned class_index) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return NULL;
  void *block = pop_or_refill(lease.heap, class_index);
  hk_thread_leave(lease);
  return block;
}

/* What is idle goes back to the system before a request fails: another attempt may find room. */
static void *alloc_small_slow(size_t size) {
  hk_purger_consider();
  unsigned class_index = hk_class_of(size > 0 ? size : 1);
  void *block = try_small(class_index);
  if (block != NULL) return block;
  (void)hk_reclaim(0);
  block = try_small(class_index);
  return block != NULL ? block : out_of_memory();
}

void *hk_alloc_slow(size_t size) {
  if (size <= HK_MID_MAX_BYTES) return alloc_small_slow(size);
  bool zero;
  return hk_alloc_large(size, HK_BLOCK_ALIGNMENT, &zero);
}

static void *try_large(size_t size, size_t alignment, bool *zero) {
  bool is_run = size <= HK_RUN_MAX_BYTES && alignment <= HK_SUPERSLAB_BYTES;
  void *block = is_run ? hk_run_alloc(size, alignment, zero) : hk_big_alloc(size, alignment, zero);
  if (block != NULL) hk_stat_add(is_run ? hk_stat_run_alloc : hk_stat_big_alloc, 1);
  return block;
}

/* A run of slabs that the thread's heap has to spare; NULL when it has none. */
static void *take_spare_run(size_t size) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return NULL;
  hk_slab_t *head = hk_spare_take(lease.heap, hk_run_slabs(size));
  if (head != NULL) {
    hk_stat_bump(&lease.heap->stat, hk_stat_run_alloc, 1);
    hk_stat_bump(&lease.heap->stat, hk_stat_run_reuse, 1);
  }
  hk_thread_leave(lease);
  return head != NULL ? hk_run_reopen(head) : NULL;
}

static bool spare_run(hk_heap_t *heap, hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_stat_bump(&heap->stat, hk_stat_run_free, 1);
  hk_spare_put(heap, head);
  return true;
}

static bool free_run(hk_slab_t *head) {
  int saved_errno = errno; /* attaching a heap may change it */
  hk_thread_lease_t lease = hk_lifecycle_enter();
  errno = saved_errno;
  bool keep = lease.heap != NULL && !lease.borrowed;
  bool freed = keep ? spare_run(lease.heap, head) : hk_run_free(head);
  if (freed && !keep) hk_stat_add(hk_stat_run_free, 1);
  if (lease.heap != NULL) hk_thread_leave(lease);
  return freed;
}

void *hk_alloc_large(size_t size, size_t alignment, bool *zero) {
  if (size <= HK_RUN_MAX_BYTES && alignment <= HK_SLAB_BYTES) {
    *zero = false;
    void *spare = take_spare_run(size);
    if (spare != NULL) return spare;
  }
  if (size > (size_t)PTRDIFF_MAX) return out_of_memory();
  hk_lifecycle_start(); /* this may be the process's first request */
  hk_purger_consider();
  hk_reclaim_remote();
  void *block = try_large(size, alignment, zero);
  if (block == NULL) {
    (void)hk_reclaim(0);
    block = try_large(size, alignment, zero);
  }
  return block != NULL ? block : out_of_memory();
}

static bool is_small(size_t size) { return size <= HK_MID_MAX_BYTES; }

static void *calloc_small(size_t size) {
  size_t least = size > 0 ? size : 1;
  unsigned class_index = hk_class_of(least);
  bool fresh = hk_bin_is_fresh(&hk_thread_heap->bin[class_index]);
  hk_block_t *block = pop(hk_thread_heap, class_index);
  if (block == NULL) {
    block = alloc_small_slow(least);
    if (block == NULL) return NULL;
    fresh = hk_bin_was_fresh(&hk_thread_heap->bin[class_index], class_index);
  }
  if (!fresh) return memset(block, 0, size);
  *block = (hk_block_t){0}; /* what linked it while it was free */
  return block;
}

void *hk_calloc(size_t count, size_t size) {
  size_t bytes;
  if (!hk_multiply(count, size, &bytes)) return out_of_memory();
  hk_count_request(bytes);
  if (is_small(bytes)) return calloc_small(bytes);
  bool zero;
  void *block = hk_alloc_large(bytes, HK_BLOCK_ALIGNMENT, &zero);
  if (block == NULL || zero) return block;
  if (bytes <= HK_RUN_MAX_BYTES) return memset(block, 0, bytes);
  hk_big_clear(block, bytes);
  return block;
}

/* ---- Free. */

/* A small block by a thread without a heap, or one that looked wrong at first. */
static void free_small(hk_slab_t *span, void *block) {
  int saved_errno = errno; /* attaching a heap may change it */
  hk_lifecycle_follow(hk_load_relaxed(&span->owner));
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) {
    hk_remote_free_now(span, block);
  } else if (hk_load_relaxed(&span->owner) == lease.heap) { /* it was followed, or borrowed by chance */
    hk_sink_t *sink = span->sink;
    if (hk_sink_push(sink, block)) hk_bin_settle(lease.heap, span);
  } else {
    hk_remote_free(lease.heap, span, block);
  }
  if (lease.heap != NULL) hk_thread_leave(lease);
  errno = saved_errno;
}

static bool free_big(hk_slab_t *slab, void *block) {
  if (!hk_big_free(slab, block)) return false;
  hk_stat_add(hk_stat_big_free, 1);
  return true;
}

static HK_NOINLINE void free_unusual(void *block, hk_slab_t *slab) {
  if (block == NULL) return;
  if (hk_slab_state(slab) == hk_slab_run && (uintptr_t)block == hk_slab_start(slab) && free_run(slab)) return;
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_small) {
    free_small(finding.slab, block);
    return;
  }
  bool is_big = finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_big;
  if (!(is_big && free_big(finding.slab, block))) hk_misuse_address(hk_act_free, block);
}

/* Whether nothing speaks against a free of another thread's block: the same questions as on the fast path. */
static bool is_plain_remote(const hk_heap_t *heap, hk_slab_t *slab, const void *block) {
  const hk_heap_t *owner = hk_load_relaxed(&slab->owner);
  if (owner == NULL || owner == heap || heap == HK_EMPTY_HEAP) return false;
  return hk_start_is_plausible((uint16_t)(uintptr_t)block, slab->inverse) && (uintptr_t)block >> HK_ADDRESS_BITS == 0 &&
         !hk_block_looks_free(block);
}

void hk_free_slow(void *block, hk_slab_t *slab) {
  hk_heap_t *heap = hk_thread_heap;
  if (HK_LIKELY(is_plain_remote(heap, slab, block))) {
    hk_remote_free(heap, slab, block);
  } else {
    free_unusual(block, slab);
  }
}

void hk_free_due(hk_slab_t *slab) {
  hk_heap_t *heap = hk_thread_heap;
  hk_heap_enter(heap);
  hk_bin_settle(heap, slab);
  hk_misuse_take_up(heap);
  hk_heap_leave(heap);
}

/* ---- Sizes and realloc. */

size_t hk_good_size(size_t size) {
  if (size <= HK_MID_MAX_BYTES) return hk_class_bytes(hk_class_of(size > 0 ? size : 1));
  return size <= HK_RUN_MAX_BYTES ? hk_run_good_size(size) : hk_big_good_size(size);
}

size_t hk_usable_size(const void *block) {
  if (block == NULL) return 0;
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict == hk_verdict_live) return finding.bytes;
  hk_misuse_address(hk_act_ask_size, block);
  return 0;
}

/* Whether a small block of `bytes` may stay where it is: one that would be more than half empty moves, if a smaller one
 * can be had. */
static bool stays(size_t bytes, size_t size) {
  return size <= bytes && (size >= bytes / 2 || hk_good_size(size) == bytes);
}

/* Where the block can keep its place, or its pages can be moved: the block; otherwise NULL. */
static void *resize(const hk_finding_t *finding, void *block, size_t size) {
  switch (hk_slab_state(finding->slab)) {
    case hk_slab_small:
      return stays(finding->bytes, size) ? block : NULL;
    case hk_slab_run:
      if (is_small(size) || size > HK_RUN_MAX_BYTES || !hk_run_resize(finding->slab, size)) return NULL;
      break;
    case hk_slab_big:
      if (size <= HK_RUN_MAX_BYTES) return NULL;
      block = hk_big_resize(finding->slab, block, size);
      if (block == NULL) return NULL;
      break;
    default:
      return NULL;
  }
  hk_stat_add(hk_stat_realloc_in_place, 1);
  return block;
}

/* A block that grows by less than a quarter will likely grow again: a quarter at once makes the copies rarer. */
static size_t with_room_to_grow(size_t bytes, size_t size) {
  size_t roomy = bytes + bytes / 4;
  return size > bytes && size < roomy && roomy <= HK_RUN_MAX_BYTES ? roomy : size;
}

static void *move(void *block, size_t bytes, size_t size) {
  int saved_errno = errno;
  size_t wanted = with_room_to_grow(bytes, size);
  void *moved = hk_alloc(wanted);
  if (moved == NULL && wanted > size) {
    moved = hk_alloc(size);
    if (moved != NULL) errno = saved_errno;
  }
  if (moved == NULL) {
    if (size > bytes) return NULL;
    errno = saved_errno; /* it is smaller: where it stands there is room */
    return block;
  }
  memcpy(moved, block, size < bytes ? size : bytes);
  hk_free(block);
  return moved;
}

/* What a small block of the caller's own lets the program use; 0 for every other block, and when something speaks
 * against this one. */
static size_t own_small_bytes(const void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_load_relaxed(&slab->owner) != hk_thread_heap) return 0;
  if (!hk_span_has_block(slab->head, block) || hk_block_looks_free(block)) return 0;
  return slab->block_bytes;
}

static void *realloc_unusual(void *block, size_t size) {
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live) {
    hk_misuse_address(hk_act_realloc, block);
    return out_of_memory();
  }
  if (size > (size_t)PTRDIFF_MAX) return out_of_memory();
  void *same = resize(&finding, block, size);
  return same != NULL ? same : move(block, finding.bytes, size);
}

void *hk_realloc(void *block, size_t size) {
  if (block == NULL) return hk_alloc(size);
  if (size == 0) {
    hk_free(block);
    return NULL;
  }
  size_t bytes = own_small_bytes(block);
  if (bytes == 0) return realloc_unusual(block, size);
  return stays(bytes, size) ? block : move(block, bytes, size);
}

/* ---- The public names. */

void *hakmem_malloc(size_t size) { return hk_alloc(size); }
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
void *hakmem_calloc(size_t count, size_t size) { return hk_calloc(count, size); }
void *hakmem_realloc(void *block, size_t size) { return hk_realloc(block, size); }

void *hakmem_reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  return hk_multiply(count, size, &bytes) ? hk_realloc(block, bytes) : out_of_memory();
}

size_t hakmem_malloc_usable_size(void *block) { return hk_usable_size(block); }
size_t hakmem_good_size(size_t size) {
  size_t good_size = hk_good_size(size);
  return good_size != 0 ? good_size : size; /* there is no such block; asking for it says so */
}
bool hakmem_check_owned(const void *address) { return hk_verify(address).verdict == hk_verdict_live; }
