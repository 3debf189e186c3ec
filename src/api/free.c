/* api/free.c - L5. The slow half of free (alloc.h): blocks of other threads, runs, large and sampled blocks, and
 * misuse. */
#include <errno.h>

#include "api/alloc.h"
#include "api/guarded.h"
#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/sample_hook.h"
#include "api/verify.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "heap/handover.h"
#include "heap/mid.h"
#include "heap/part.h"
#include "heap/remote.h"
#include "heap/sample_mark.h"
#include "heap/spare.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/live_bit.h"
#include "space/nothing.h"
#include "space/run.h"
#include "space/superslab.h"

static HK_NOINLINE hk_thread_lease_t enter_heapless_to_free(hk_heap_t *owner) {
  int saved_errno = errno; /* attaching a heap may change it */
  hk_thread_lease_t lease = {.heap = NULL};
  if (!hk_thread_frees_without_heap(owner)) lease = hk_lifecycle_enter();
  errno = saved_errno;
  return lease;
}

/* Returns a lease without a heap when the thread is to free without one, or no heap can be had. */
HK_INLINE hk_thread_lease_t enter_to_free(hk_heap_t *owner) {
  hk_heap_t *heap = hk_thread_own();
  return HK_UNLIKELY(heap == HK_EMPTY_HEAP) ? enter_heapless_to_free(owner) : hk_thread_enter_own(heap);
}

static bool spare_run(hk_heap_t *heap, hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_stat_bump(&heap->stat, hk_stat_run_free, 1);
  hk_spare_put_run(heap, head);
  return true;
}

static bool free_run(hk_slab_t *head) {
  if (HK_UNLIKELY(head->named != NULL)) (void)hk_named_remove_larger(head);
  hk_thread_lease_t lease = enter_to_free(NULL);
  bool freed = lease.heap != NULL ? spare_run(lease.heap, head) : hk_run_free(head);
  if (freed && lease.heap == NULL) hk_stat_add(hk_stat_run_free, 1);
  if (lease.heap != NULL) hk_thread_leave(lease);
  return freed;
}

/* Frees a small block for a thread without a heap, and one that the fast path found implausible. */
static void free_small(hk_slab_t *span, void *block) {
  bool is_part = span->part_kind != hk_part_of_none; /* no thread takes a part for its heap */
  hk_thread_lease_t lease = enter_to_free(is_part ? NULL : hk_load_relaxed(&span->owner));
  hk_heap_t *owner = hk_load_relaxed(&span->owner);
  if (lease.heap != NULL && owner == lease.heap) { /* perhaps a heap that the thread has just adopted */
    if (HK_HARDENED) {
      (void)hk_live_bit_collect(hk_live_bit_of(block));
      hk_remote_collect_hardened(lease.heap, span, block);
      hk_misuse_report_damaged(lease.heap);
    } else {
      hk_free_list_t *free_list = span->free_list;
      if (hk_free_list_push(free_list, block)) hk_bin_countdown_over(lease.heap, span);
    }
  } else if (lease.heap == NULL || span->part_kind == hk_part_of_heap) {
    hk_remote_free_now(span, block);
  } else {
    hk_remote_free(lease.heap, span, block);
  }
  if (lease.heap != NULL) hk_thread_leave(lease);
}

static bool free_large(hk_slab_t *slab, void *block) {
  if (HK_UNLIKELY(slab->named != NULL)) (void)hk_named_remove_larger(slab);
  if (!hk_large_free(slab, block)) return false;
  hk_thread_count(hk_stat_large_free);
  return true;
}

static void free_sampled(const hk_finding_t *finding, void *block) {
  if (hk_sample_hook_forget((uintptr_t)block, true)) {
    hk_free((void *)finding->start);
  } else {
    hk_misuse_address(hk_act_free, block);
  }
}

/* The sample goes first: another block may have the slot as soon as it is free. */
static void free_guarded(const hk_finding_t *finding, void *block) {
  if (finding->verdict == hk_verdict_live) (void)hk_sample_hook_forget((uintptr_t)block, true);
  hk_guarded_free((uintptr_t)block);
}

static HK_NOINLINE void free_unusual(void *block) {
  if (block == NULL) return;
  hk_finding_t finding = hk_verify(block);
  if (finding.is_guarded) {
    free_guarded(&finding, block);
    return;
  }
  if (finding.offset != 0) {
    free_sampled(&finding, block);
    return;
  }
  if (HK_HARDENED && finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_nothing) {
    if (!hk_nothing_free(block)) hk_misuse_address(hk_act_free, block);
    return;
  }
  if (finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_small) {
    free_small(finding.slab, block);
    return;
  }
  bool is_large = finding.verdict == hk_verdict_live && hk_slab_state(finding.slab) == hk_slab_large;
  if (!(is_large && free_large(finding.slab, block))) hk_misuse_address(hk_act_free, block);
}

/* Returns whether the block is plausibly a live small block: by the fast path's tests. */
HK_INLINE bool is_plausibly_live(const hk_slab_t *slab, const void *block) {
  return hk_start_is_plausible(&slab->starts, (uint16_t)(uintptr_t)block) && (uintptr_t)block >> HK_ADDRESS_BITS == 0 &&
         !hk_block_may_look_free(block);
}

/* is_plausibly_live for a block of another thread: `owner` is a heap. */
HK_INLINE bool is_plausibly_live_remote(const hk_heap_t *heap, const hk_slab_t *slab, const hk_heap_t *owner,
                                        const void *block) {
  return owner != heap && heap != HK_EMPTY_HEAP && is_plausibly_live(slab, block);
}

/* Frees a block of a heap that the caller has and is not switched to: as in hk_free. Returns false for an address that
 * is implausible. */
HK_INLINE bool free_own(hk_slab_t *slab, hk_block_t *block) {
  bool is_plausible = hk_start_is_plausible(&slab->starts, (uint16_t)(uintptr_t)block);
  if (HK_UNLIKELY(!is_plausible || hk_block_may_look_free(block))) return false;
  if (HK_UNLIKELY(hk_free_list_push(slab->free_list, block))) hk_free_countdown_over(slab);
  return true;
}

/* Frees a block that is in no span: most often a run. */
static HK_NOINLINE void free_unowned(void *block, hk_slab_t *slab) {
  bool is_run = hk_slab_state(slab) == hk_slab_run && (uintptr_t)block == hk_slab_start(slab);
  if (HK_LIKELY(is_run && !hk_sample_mark_is_on_larger(slab)) && free_run(slab)) return;
  free_unusual(block);
}

static HK_NOINLINE void free_other(void *block, hk_slab_t *slab, hk_heap_t *owner) {
  hk_heap_t *heap = hk_thread_own();
  if (HK_UNLIKELY(!is_plausibly_live_remote(heap, slab, owner, block))) {
    free_unusual(block);
  } else if (HK_UNLIKELY(slab->part_kind == hk_part_of_heap)) {
    hk_remote_free_now(slab, block);
  } else {
    hk_remote_free(heap, slab, block);
  }
}

/* Tries in this order: a block that no heap owns; another thread's block outside of named heaps and tags; a block of a
 * heap that the caller has and is not switched to; all other cases. */
void hk_free_slow(void *block, hk_slab_t *slab) {
  hk_heap_t *owner = hk_load_relaxed(&slab->owner), *heap = hk_thread_own();
  if (HK_UNLIKELY(owner == NULL)) {
    free_unowned(block, slab);
    return;
  }
  bool is_others = slab->part_kind == hk_part_of_none && owner != hk_part_table->base;
  if (HK_LIKELY(is_others) && HK_LIKELY(is_plausibly_live_remote(heap, slab, owner, block))) {
    hk_remote_free(heap, slab, block);
  } else if (!hk_part_is_mine(slab, owner) || !free_own(slab, block)) {
    free_other(block, slab, owner);
  }
}

/* The owner is the caller's heap. hk_thread_heap may be empty by now, while another thread examines or loosens this one
 * (heap/attachment.h). */
void hk_free_countdown_over(hk_slab_t *slab) {
  hk_heap_t *heap = hk_load_relaxed(&slab->owner);
  hk_heap_enter(heap);
  hk_bin_countdown_over(heap, slab);
  hk_misuse_report_damaged(heap);
  hk_heap_leave(heap);
}

/* ---- A hardened build. */

/* Reports a block that is not in use or holds a sample, or whose canary is damaged. */
static HK_COLD void report_hardened(const hk_slab_t *slab, void *block) {
  if (hk_verify(block).verdict == hk_verdict_live) {
    hk_misuse_overflow(block, slab->block_bytes - HK_CANARY_BYTES);
  } else {
    hk_misuse_address(hk_act_free, block);
  }
}

/* Puts a block of the quarantine on its free list. A damaged one is lost. */
static void push_own(hk_block_t *block) {
  if (HK_UNLIKELY(!hk_handover_may_link(block))) {
    hk_misuse_damage(block);
    return;
  }
  hk_slab_t *slab = hk_slab_of(block);
  if (HK_UNLIKELY(hk_free_list_push(slab->free_list, block))) hk_free_countdown_over(slab);
}

HK_INLINE void free_own_hardened(hk_heap_t *heap, hk_slab_place_t place, void *block) {
  const hk_slab_t *slab = hk_slab_at(&place);
  size_t bytes = slab->block_bytes;
  if (HK_UNLIKELY(!hk_handover_canary_is_whole(block, bytes) || !hk_live_bit_clear(hk_live_bit_at(place, block)))) {
    report_hardened(slab, block);
    return;
  }
  hk_keep_store_order(); /* a child of fork must not find a block in a list that is live */
  hk_wipe(block, bytes);
  hk_block_t *out = hk_quarantine_swap(hk_heap_quarantine(heap), slab->class_index, bytes, block);
  if (HK_LIKELY(out != NULL)) push_own(out);
}

/* Frees a block of a heap that is not the calling thread's, or that the thread takes up here. */
static HK_NOINLINE void free_other_hardened(hk_slab_t *slab, void *block) {
  size_t bytes = slab->block_bytes;
  if (!hk_handover_canary_is_whole(block, bytes) || !hk_live_bit_claim(hk_live_bit_of(block))) {
    report_hardened(slab, block);
    return;
  }
  hk_wipe(block, bytes);
  hk_heap_t *heap = hk_thread_own();
  if (HK_UNLIKELY(slab->part_kind == hk_part_of_heap)) {
    hk_remote_free_now(slab, block);
  } else if (HK_LIKELY(heap != HK_EMPTY_HEAP)) {
    hk_remote_free(heap, slab, block);
  } else {
    free_small(slab, block);
  }
}

void hk_free_hardened(void *block) {
  hk_slab_place_t place = hk_slab_place_of(block);
  hk_slab_t *slab = hk_slab_at(&place);
  hk_heap_t *owner = hk_load_relaxed(&slab->owner);
  if (HK_UNLIKELY(owner == NULL || !hk_start_is_plausible(&slab->starts, (uint16_t)(uintptr_t)block) ||
                  (uintptr_t)block >> HK_ADDRESS_BITS != 0)) {
    free_unowned(block, slab);
  } else if (HK_LIKELY(hk_thread_has(owner)) || hk_part_is_mine(slab, owner)) {
    free_own_hardened(owner, place, block);
  } else {
    free_other_hardened(slab, block);
  }
}

/* Returns whether the class serves requests of `size` bytes: as their own, as a coarse one, or for an alignment. */
static bool class_serves(unsigned class_index, size_t alignment, size_t size) {
  unsigned own = hk_class_of_request(size);
  if (own == class_index) return true;
  if (!hk_class_is_mid(own) && hk_class_coarse(own) == class_index) return true;
  return alignment > HK_BLOCK_ALIGNMENT && hk_class_of_aligned(alignment, hk_block_bytes_for(size)) == class_index;
}

typedef struct {
  size_t size;
  bool has_alignment;
  size_t alignment;
} told_t;

/* Returns whether a larger block may be freed as one of `size` bytes. It is whole slabs where the system refused it a
 * mapping of its own. */
static bool larger_fits(const hk_finding_t *finding, size_t size) {
  if (hk_realloc_may_give(size, finding->bytes) || finding->slab->is_unshrunk) return true;
  size_t least = size > 0 ? size : 1;
  bool is_mapping = hk_slab_state(finding->slab) == hk_slab_large && finding->slab->is_lone;
  return finding->bytes == (is_mapping ? hk_slab_good_size(least) : hk_align_up(least, HK_SLAB_BYTES));
}

HK_INLINE bool size_fits(const hk_finding_t *finding, void *block, const told_t *told) {
  if (told->size > finding->bytes) return false;
  if (finding->offset != 0) return true; /* a sample is longer than its request */
  if (finding->is_guarded) return true;  /* realloc may have left it in its slot */
  if (hk_slab_state(finding->slab) != hk_slab_small) return larger_fits(finding, told->size);
  unsigned class_index = finding->slab->class_index;
  if (class_serves(class_index, told->has_alignment ? told->alignment : HK_BLOCK_ALIGNMENT, told->size)) return true;
  if (hk_handover_is_unshrunk(block, finding->slab->block_bytes)) return true;
  bool is_resized = hk_handover_is_resized(block, finding->slab->block_bytes);
  return is_resized && hk_realloc_may_give(told->size, finding->bytes);
}

HK_INLINE bool alignment_fits(const void *block, const told_t *told) {
  if (!told->has_alignment) return true;
  return hk_is_power_of_two(told->alignment) && (uintptr_t)block % told->alignment == 0;
}

HK_INLINE bool is_told_right(void *block, const told_t *told) {
  if (!HK_HARDENED) return true;
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live) return true;
  if (alignment_fits(block, told) && size_fits(&finding, block, told)) return true;
  size_t alignment = told->alignment;
  hk_misuse_wrong_size(block, finding.bytes, told->has_alignment ? &alignment : NULL, told->size);
  return false;
}

bool hk_told_size_fits(void *block, size_t size) {
  told_t told = {.size = size};
  return is_told_right(block, &told);
}

bool hk_told_alignment_fits(void *block, size_t alignment, size_t size) {
  told_t told = {.size = size, .has_alignment = true, .alignment = alignment};
  return is_told_right(block, &told);
}

void hakmem_free(void *block) { hk_free(block); }
void hakmem_cfree(void *block) { hk_free(block); }
void hakmem_free_sized(void *block, size_t size) { hk_free_sized(block, size); }
void hakmem_free_aligned_sized(void *block, size_t alignment, size_t size) {
  hk_free_aligned_sized(block, alignment, size);
}
