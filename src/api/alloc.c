/* api/alloc.c - L5. See alloc.h. */
#include "api/alloc.h"

#include <errno.h>
#include <string.h>

#include "api/guarded.h"
#include "api/instruments.h"
#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/process_purge.h"
#include "api/purge_thread.h"
#include "api/sample_hook.h"
#include "api/sampled.h"
#include "api/share_heaps.h"
#include "api/small_block.h"
#include "base/arithmetic.h"
#include "base/panic.h"
#include "hakmem/hakmem.h"
#include "heap/part.h"
#include "heap/refill.h"
#include "heap/sample_countdown.h"
#include "heap/spare.h"
#include "policy/sampling.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/nothing.h"
#include "space/run.h"
#include "space/shortage.h"

void *hk_alloc_fail(void) {
  hk_stat_add(hk_stat_out_of_memory, 1);
  errno = ENOMEM;
  return NULL;
}

/* ---- Small blocks. */

/* Takes a block of `*asked_class`, or of the coarse class that serves it, from the thread's heap, and sets
 * `*asked_class` to the class of the block. Returns NULL and sets `*choice` when the request is to be sampled or
 * guarded; with `choice` NULL the request goes unsampled. Returns NULL also when there is no memory. */
static void *try_small(unsigned *asked_class, size_t alignment, hk_sample_choice_t *choice) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return NULL;
  unsigned class_index = *asked_class = hk_refill_choose_class(lease.heap, *asked_class, alignment);
  hk_sample_countdown_follow(lease.heap);
  void *block = HK_UNLIKELY(hk_heap_is_sampled(lease.heap)) ? hk_sampled_take(lease, class_index, choice)
                                                            : hk_small_take(lease.heap, class_index);
  hk_thread_leave(lease);
  return block;
}

/* Memory that served before may begin with the words of an earlier free block. A program may leave them there, and
 * realloc then copies them to a small block, which would look free. realloc cannot clear them: in a block that is in
 * use they may be the program's contents. space/run.c does the same for runs. Where a live block looks free all
 * the same, heap/search.h finds that it is live. */
static void *without_seal(void *block, const bool *is_zero) {
  if (block != NULL && !*is_zero) hk_block_unseal_if_free(block);
  return block;
}

HK_NOINLINE void *hk_alloc_sampled(size_t size, size_t alignment, size_t bytes, uint64_t weight_q16, bool *is_zero) {
  size_t offset = alignment > HK_BLOCK_ALIGNMENT ? alignment : HK_BLOCK_ALIGNMENT;
  if (bytes == 0 || size > (size_t)PTRDIFF_MAX - offset) return NULL;
  hk_sample_hook_prefetch();
  size_t whole = offset + bytes; /* at least the usable bytes of an unsampled block */
  unsigned class_index = hk_class_of_aligned(alignment, hk_block_bytes_for(whole));
  *is_zero = false;
  char *start =
      class_index != 0 ? try_small(&class_index, alignment, NULL) : hk_alloc_large_unsampled(whole, alignment, is_zero);
  if (start == NULL) return NULL;
  if (hk_sample_hook_note((uintptr_t)start + offset, offset, size, bytes, weight_q16))
    return without_seal(start + offset, is_zero);
  hk_free(start);
  return NULL;
}

/* Returns a free block of a larger class of the thread's heap; NULL when there is none. */
static void *take_larger(unsigned class_index, size_t alignment) {
  if (HK_HARDENED) return NULL; /* a free that tells the size is checked against the block's class */
  const hk_heap_t *heap = hk_thread_own();
  unsigned larger = heap != HK_EMPTY_HEAP ? hk_refill_find_larger(heap, class_index, alignment) : 0;
  return larger != 0 ? try_small(&larger, alignment, NULL) : NULL;
}

/* ---- Small blocks: the slow path. */

/* Returns whether the request may start threads of the library, for which the C library allocates. Not while the thread
 * is switched to a named heap, with whose end such a block would go. Not inline: the caller has no register for it. */
static HK_NOINLINE bool may_start_work(void) {
  hk_named_t *named = hk_part_current();
  return named == NULL || hk_named_kind(named) == hk_named_tag;
}

HK_INLINE void consider_work(void) {
  hk_purge_thread_consider();
  hk_serve_consider();
  hk_process_purge_consider();
  hk_share_heaps_consider();
}

void hk_alloc_consider_work(void) { consider_work(); }

/* Gives all that is free back to the system, and the addresses of freed guarded blocks, before a request fails.
 * `may_be_short`: addresses may be short (hk_process_purge_all). */
static void give_all_back(bool may_be_short) {
  hk_process_purge_all(may_be_short);
  hk_guard_slot_drop_addresses();
}

static HK_NOINLINE void *alloc_small_after_purge(unsigned class_index, size_t alignment) {
  give_all_back(true);
  void *block = try_small(&class_index, alignment, NULL);
  if (block == NULL) block = take_larger(class_index, alignment);
  return block != NULL ? block : hk_alloc_fail();
}

/* alloc_small_after_purge for a thread that is switched to a named heap or tag. First purges that one alone, because no
 * other memory helps where its limit refuses. */
static HK_NOINLINE void *alloc_small_named(hk_named_t *named, unsigned class_index, size_t alignment) {
  uint64_t refused_before = hk_load_relaxed(&named->refused_count);
  hk_process_flush_named(named);
  unsigned serving_class = class_index;
  void *block = try_small(&serving_class, alignment, NULL);
  if (block == NULL) block = take_larger(class_index, alignment);
  if (block != NULL) return block;
  bool is_refused = hk_load_relaxed(&named->refused_count) != refused_before;
  return is_refused ? hk_alloc_fail() : alloc_small_after_purge(class_index, alignment);
}

static HK_NOINLINE void *alloc_small_short(unsigned class_index, size_t alignment) {
  hk_named_t *named = hk_part_current();
  return named != NULL ? alloc_small_named(named, class_index, alignment)
                       : alloc_small_after_purge(class_index, alignment);
}

/* Allocates the block that was chosen: in a guard slot, as a sample, or else as any other. */
static HK_NOINLINE void *alloc_small_chosen(unsigned class_index, size_t alignment, size_t size,
                                            const hk_sample_choice_t *choice) {
  bool is_zero;
  void *block = NULL;
  size_t bytes = hk_class_bytes(class_index);
  if (choice->is_guarded) block = hk_guarded_alloc(size, alignment, bytes, choice);
  if (block == NULL && choice->weight_q16 != 0)
    block = hk_alloc_sampled(size, alignment, bytes, choice->weight_q16, &is_zero);
  return block != NULL ? block : try_small(&class_index, alignment, NULL);
}

/* Sets `*is_unknown` to true for a block of another class and a sampled block: hk_heap_was_fresh says nothing about
 * those. */
static void *alloc_small_slow(unsigned class_index, size_t alignment, size_t size, bool *is_unknown) {
  if (HK_LIKELY(may_start_work())) consider_work();
  if (hk_shortage_is_on()) hk_process_purge_after_refusal();
  hk_sample_choice_t choice = {.weight_q16 = 0};
  unsigned serving_class = class_index;
  void *block = try_small(&serving_class, alignment, &choice);
  *is_unknown = block == NULL || serving_class != class_index;
  if (HK_LIKELY(block != NULL)) return block;
  if (choice.weight_q16 != 0 || choice.is_guarded) block = alloc_small_chosen(serving_class, alignment, size, &choice);
  if (HK_LIKELY(block != NULL)) return block;
  return alloc_small_short(class_index, alignment);
}

void *hk_alloc_of_class(unsigned class_index, size_t alignment, size_t size) {
  hk_count_request(hk_class_bytes(class_index));
  hk_block_t *block = hk_small_pop(hk_thread_own()->bin, class_index);
  bool is_unknown;
  return block != NULL ? block : alloc_small_slow(class_index, alignment, size, &is_unknown);
}

static void *alloc_nothing(void) {
  hk_lifecycle_start(); /* it may be the first request of the process */
  return hk_nothing_alloc();
}

void *hk_alloc_slow(size_t size) {
  bool is_unknown;
  /* A named heap and a tag have an ordinary block, which counts and ends with the heap. */
  void *nothing = HK_HARDENED && size == 0 && hk_part_current() == NULL ? alloc_nothing() : NULL;
  if (nothing != NULL) return nothing;
  if (size <= HK_SMALL_MAX_BYTES) {
    return alloc_small_slow(hk_class_of_request(size), HK_BLOCK_ALIGNMENT, size, &is_unknown);
  }
  bool is_zero;
  return hk_alloc_large(size, HK_BLOCK_ALIGNMENT, &is_zero);
}

void hk_alloc_follow_soft_limit(hk_named_t *named) {
  if (HK_LIKELY(!hk_load_relaxed(&named->is_crossed))) return;
  hk_store_relaxed(&named->is_crossed, false);
  if (named->callback != NULL) named->callback((hakmem_heap_t *)named, hk_load_relaxed(&named->bytes), named->context);
}

/* ---- Runs and large blocks. */

static void *try_large(size_t size, size_t alignment, bool *is_zero) {
  bool is_run = size <= HK_RUN_MAX_BYTES && alignment <= HK_SUPERSLAB_BYTES && !hk_shortage_is_on();
  if (HK_HARDENED) { /* others serve where there are very many mappings, or the system refuses one */
    void *guarded = hk_large_alloc_pages(size, alignment, is_zero);
    if (guarded != NULL) hk_thread_count(hk_stat_large_alloc);
    if (guarded != NULL) return without_seal(guarded, is_zero);
  }
  void *block =
      is_run ? hk_run_alloc(size, alignment, is_zero) : without_seal(hk_large_alloc(size, alignment, is_zero), is_zero);
  if (block != NULL) hk_thread_count(is_run ? hk_stat_run_alloc : hk_stat_large_alloc);
  return block;
}

/* Returns a run from the spare slabs of the thread's heap, or NULL when it has none. */
HK_INLINE void *take_spare_run(size_t size) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return NULL;
  void *run = hk_spare_take_run(lease.heap, hk_run_slabs(size));
  if (run != NULL) {
    hk_stat_bump(&lease.heap->stat, hk_stat_run_alloc, 1);
    hk_stat_bump(&lease.heap->stat, hk_stat_run_reuse, 1);
  }
  hk_thread_leave(lease);
  return run;
}

/* Returns a run from the spare slabs of the thread's heap, NULL where it has none and where spare slabs serve no such
 * request. Requires that the thread is not switched to a named heap: the library's threads may start. */
HK_INLINE void *find_spare(size_t size, size_t alignment, bool *is_zero) {
  hk_serve_consider();
  hk_share_heaps_consider();
  if (size > HK_RUN_MAX_BYTES || alignment > HK_SLAB_BYTES || hk_shortage_is_on() || HK_HARDENED) return NULL;
  *is_zero = false;
  return take_spare_run(size);
}

/* Finds a block where no spare run serves. Returns NULL and leaves errno unchanged when the system refuses. */
HK_INLINE void *find_new_large(size_t size, size_t alignment, bool *is_zero) {
  if (size >> HK_ADDRESS_BITS != 0) return NULL; /* whatever was purged, there are no such addresses */
  hk_lifecycle_start();                          /* it may be the first request of the process */
  hk_purge_thread_consider();
  hk_process_purge_consider();
  hk_process_purge_drain_own();
  if (hk_shortage_is_on()) hk_process_purge_after_refusal();
  void *block = try_large(size, alignment, is_zero);
  if (block == NULL) {
    give_all_back(size <= HK_RUN_MAX_BYTES || hk_shortage_is_on());
    block = try_large(size, alignment, is_zero);
  }
  return block;
}

/* Finds a block outside of named heaps and tags. Returns NULL and leaves errno unchanged when the system refuses. */
HK_INLINE void *find_large_unnamed(size_t size, size_t alignment, bool *is_zero) {
  void *spare = find_spare(size, alignment, is_zero);
  return spare != NULL ? spare : find_new_large(size, alignment, is_zero);
}

/* Finds a block for the named heap or tag that the thread is switched to, and charges it. Returns NULL also when its
 * limit refuses. */
static HK_NOINLINE void *find_large_named(hk_named_t *named, size_t size, size_t alignment, bool *is_zero) {
  size_t bytes = hk_slab_good_size(size);
  if (bytes == 0) return NULL;
  if (!hk_named_allows(named, bytes)) {
    hk_process_flush_named(named);
    if (!hk_named_allows(named, bytes)) return NULL;
  }
  /* The block's slabs do not belong to the part. Its free leaves them to the heap that the freeing thread has then,
   * which is seldom a named heap's part. */
  hk_heap_t *part = hk_named_kind(named) == hk_named_heap ? hk_part_enter_base() : NULL;
  void *block = find_large_unnamed(size, alignment, is_zero);
  /* Near a limit on addresses the block may have other bytes than expected. */
  if (block != NULL) bytes = hk_load_relaxed(&hk_slab_of(block)->bytes);
  if (block != NULL && !hk_named_charge(named, bytes)) { /* another thread's charge came first */
    hk_free(block);
    block = NULL;
  }
  hk_part_leave_base(part);
  if (block == NULL) return NULL;
  hk_named_add_larger(named, block, bytes, 0);
  return block;
}

HK_NOINLINE void *hk_alloc_large_unsampled(size_t size, size_t alignment, bool *is_zero) {
  hk_named_t *named = hk_part_current();
  return HK_UNLIKELY(named != NULL) ? find_large_named(named, size, alignment, is_zero)
                                    : find_large_unnamed(size, alignment, is_zero);
}

/* Returns NULL when the request of `size` bytes is not chosen, or neither a slot nor a sample can be had. An ordinary
 * block would be one of `wanted` bytes. */
static HK_NOINLINE void *sample_large(size_t size, size_t wanted, size_t alignment, bool *is_zero) {
  size_t bytes = hk_slab_good_size(wanted);
  if (bytes == 0 || hk_sample_hook_is_inside()) return NULL;
  hk_sample_choice_t choice = hk_sampled_choose_large(bytes);
  void *block = choice.is_guarded ? hk_guarded_alloc(size, alignment, bytes, &choice) : NULL;
  if (block != NULL) *is_zero = true;
  if (block != NULL || choice.weight_q16 == 0) return block;
  return hk_alloc_sampled(size, alignment, bytes, choice.weight_q16, is_zero);
}

/* Not inline: most requests find a spare run, with fewer registers. */
static HK_NOINLINE void *alloc_new_large(size_t size, size_t alignment, bool *is_zero) {
  void *block = hk_part_current() != NULL ? hk_alloc_large_unsampled(size, alignment, is_zero)
                                          : find_new_large(size, alignment, is_zero);
  return block != NULL ? block : hk_alloc_fail();
}

static void *alloc_large(size_t size, size_t wanted, size_t alignment, bool *is_zero) {
  if (HK_UNLIKELY(hk_sampling_is_on())) {
    void *sampled = sample_large(size, wanted, alignment, is_zero);
    if (sampled != NULL) return sampled;
  }
  void *spare = HK_LIKELY(hk_part_current() == NULL) ? find_spare(wanted, alignment, is_zero) : NULL;
  return HK_LIKELY(spare != NULL) ? spare : alloc_new_large(wanted, alignment, is_zero);
}

void *hk_alloc_large(size_t size, size_t alignment, bool *is_zero) {
  return alloc_large(size, size, alignment, is_zero);
}

void *hk_alloc_large_empty(size_t alignment) {
  bool ignored;
  return alloc_large(0, 1, alignment, &ignored);
}

void *hk_alloc_roomy_slow(size_t size, size_t wanted) {
  bool ignored;
  if (wanted > HK_SMALL_MAX_BYTES) return alloc_large(size, wanted, HK_BLOCK_ALIGNMENT, &ignored);
  return alloc_small_slow(hk_class_of_request(wanted), HK_BLOCK_ALIGNMENT, size, &ignored);
}

/* ---- Zero. */

/* Used by HK_ASSERT alone, which a release build leaves out. */
__attribute__((unused)) HK_INLINE bool holds_only_zeros(const void *start, size_t bytes) {
  const char *text = start;
  for (; bytes >= sizeof(uint64_t); text += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    if (*(const uint64_t *)(const void *)text != 0) return false;
  }
  for (; bytes > 0 && *text == 0; text++, bytes--) {
  }
  return bytes == 0;
}

static void *calloc_small(size_t size) {
  unsigned class_index = hk_class_of_request(size);
  bool fresh = !hk_class_is_mid(class_index) && hk_bin_is_fresh(&hk_thread_own()->bin[class_index]);
  hk_block_t *block = hk_small_pop(hk_thread_own()->bin, class_index);
  if (HK_HARDENED && block != NULL) return block; /* all zero: heap/handover.h */
  if (block == NULL) {
    bool is_unknown = false;
    block = alloc_small_slow(class_index, HK_BLOCK_ALIGNMENT, size, &is_unknown);
    if (block == NULL) return NULL;
    fresh = !is_unknown && hk_heap_was_fresh(hk_thread_own(), class_index);
  }
  if (!fresh || HK_HARDENED) return memset(block, 0, size);
  *block = (hk_block_t){0}; /* the two words that linked it */
  HK_ASSERT(holds_only_zeros(block, hk_class_bytes(class_index)), "a block that calloc does not clear is zero");
  return block;
}

void *hk_calloc_large(size_t bytes, size_t alignment) {
  bool is_zero;
  void *block = hk_alloc_large(bytes, alignment, &is_zero);
  if (block == NULL) return NULL;
  if (is_zero) {
    HK_ASSERT(holds_only_zeros(block, hk_usable_size(block)), "a block that calloc does not clear is zero");
    return block;
  }
  if (bytes <= HK_RUN_MAX_BYTES) return memset(block, 0, bytes);
  size_t offset = (uintptr_t)block % HK_SLAB_BYTES; /* not 0 for a sampled block */
  hk_large_clear((char *)block - offset, offset + bytes);
  return block;
}

void *hk_calloc(size_t count, size_t size) {
  size_t bytes;
  if (!hk_multiply(count, size, &bytes)) return hk_alloc_fail();
  hk_count_request(bytes);
  if (HK_HARDENED && bytes == 0) return hk_alloc_slow(0);
  return bytes <= HK_SMALL_MAX_BYTES ? calloc_small(bytes) : hk_calloc_large(bytes, HK_BLOCK_ALIGNMENT);
}

void *hakmem_malloc(size_t size) { return hk_alloc(size); }
void *hakmem_calloc(size_t count, size_t size) { return hk_calloc(count, size); }
