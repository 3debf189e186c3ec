/* api/alloc.c - L6. See alloc.h. */
#include "api/alloc.h"

#include <errno.h>
#include <string.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/purger.h"
#include "api/reclaim.h"
#include "api/sampled.h"
#include "api/verify.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "heap/cut.h"
#include "heap/mid.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "heap/spare.h"
#include "policy/sampling.h"
#include "policy/stat.h"
#include "profile/profile.h"
#include "space/big.h"
#include "space/run.h"
#include "space/superslab.h"

static void *out_of_memory(void) {
  hk_stat_add(hk_stat_out_of_memory, 1);
  errno = ENOMEM;
  return NULL;
}

/* ---- Allocation. */

/* `bins` begins a heap, or is its home. */
static hk_block_t *pop(hk_sink_t *bins, unsigned class_index) {
  size_t bin_offset = class_index * sizeof(hk_sink_t);
  hk_heap_t *heap = (hk_heap_t *)bins;
  return hk_class_is_mid(class_index) ? hk_bin_pop_mid(heap, bin_offset) : hk_bin_pop(heap, bin_offset);
}

/* After a pop gave nothing: a damaged block costs its list, not the request. */
static void drop_damaged(hk_heap_t *heap, hk_sink_t *sink, unsigned class_index) {
  if (sink->free == HK_LIST_END) return;
  hk_misuse_damage(sink->free);
  sink->free = HK_LIST_END;
  if (hk_class_is_mid(class_index)) {
    sink->countdown = heap->state[class_index].room;
  } else if (sink == hk_heap_home(heap, class_index)) {
    hk_heap_note_length(heap, class_index, 0);
  }
}

/* Pops from home, and fills it as often as it takes. */
static void *pop_or_refill(hk_heap_t *heap, unsigned class_index) {
  hk_sink_t *home = hk_heap_home(heap, class_index);
  if (hk_class_is_mid(class_index)) home->mark = 0; /* an adopted heap's list is of no refill that the caller knows */
  for (;;) {
    hk_block_t *block = pop(home - class_index, class_index);
    if (block != NULL) return block;
    drop_damaged(heap, home, class_index);
    bool filled = hk_refill(heap, class_index);
    hk_misuse_take_up(heap);
    if (!filled) return NULL;
  }
}

/* A request's own block, or what a sampled one is put into: that one counts itself. */
typedef enum { for_request, for_sample } purpose_t;

/* An open bin that has none is given a new list. */
static void *take_for_sample(hk_heap_t *heap, unsigned class_index) {
  hk_sink_t *bin = &heap->bin[class_index];
  bool is_renewed = hk_heap_home(heap, class_index) == bin && bin->free == HK_LIST_END;
  if (is_renewed) hk_cut_count_given(heap, class_index);
  void *block = pop_or_refill(heap, class_index);
  if (block == NULL) return NULL;
  hk_cut_skip(heap, class_index);
  if (is_renewed) hk_cut_next_piece_uncounted(heap, class_index);
  return block;
}

/* `*weight_q16` is set when the request is to be sampled: then there is no block. NULL: it is not. */
static HK_NOINLINE void *take_sampled(hk_thread_lease_t lease, unsigned class_index, purpose_t purpose,
                                      uint64_t *weight_q16) {
  hk_heap_t *heap = lease.heap;
  if (purpose == for_sample) return take_for_sample(heap, class_index);
  void *block = NULL;
  if (HK_UNLIKELY(heap->bin[class_index].free != HK_LIST_END)) { /* of a heap that was adopted */
    block = pop(heap->bin, class_index);
    if (block != NULL) return block;
    drop_damaged(heap, &heap->bin[class_index], class_index);
  }
  if (hk_cut_goes_on(heap, class_index)) {
    block = pop_or_refill(heap, class_index);
    if (block != NULL) hk_cut_go_on(heap, class_index);
    return block;
  }
  if (hk_cut_is_due(heap, class_index) && weight_q16 != NULL && !hk_profile_is_inside()) {
    *weight_q16 = hk_cut_weight(heap, class_index);
    if (!lease.borrowed)
      hk_cut_next_piece_uncounted(heap, class_index); /* the next request does not come here for it */
    return NULL;
  }
  block = pop_or_refill(heap, class_index);
  if (block == NULL) return NULL;
  if (lease.borrowed) {
    hk_cut_count(heap, class_index);
  } else {
    hk_cut_next_piece(heap, class_index);
  }
  return block;
}

static void *try_small(unsigned class_index, purpose_t purpose, uint64_t *weight_q16) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return NULL;
  hk_cut_follow(lease.heap);
  void *block = HK_UNLIKELY(hk_heap_is_sampled(lease.heap)) ? take_sampled(lease, class_index, purpose, weight_q16)
                                                            : pop_or_refill(lease.heap, class_index);
  hk_thread_leave(lease);
  return block;
}

static HK_NOINLINE void *obtain_large(size_t size, size_t alignment, bool *zero);

/* A sampled block in the place of one of `bytes`; NULL when it cannot be had, and errno as it was. */
static HK_NOINLINE void *alloc_sampled(size_t size, size_t alignment, size_t bytes, uint64_t weight_q16, bool *zero) {
  size_t offset = alignment > HK_BLOCK_ALIGNMENT ? alignment : HK_BLOCK_ALIGNMENT;
  if (size > (size_t)PTRDIFF_MAX - offset) return NULL;
  hk_profile_expect();
  size_t whole = offset + bytes; /* no less may be used than of the other */
  unsigned class_index = hk_class_of_aligned(alignment, whole);
  *zero = false;
  char *start = class_index != 0 ? try_small(class_index, for_sample, NULL) : obtain_large(whole, alignment, zero);
  if (start == NULL) return NULL;
  if (hk_profile_note((uintptr_t)start + offset, offset, size, bytes, weight_q16)) return start + offset;
  hk_free(start);
  return NULL;
}

/* What is idle goes back to the system before a request fails: another attempt may find room. `*sampled` is set where the
 * block is one that nothing is known of. */
static void *alloc_small_slow(unsigned class_index, size_t alignment, size_t size, bool *sampled) {
  hk_purger_consider();
  uint64_t weight_q16 = 0;
  void *block = try_small(class_index, for_request, &weight_q16);
  if (HK_UNLIKELY(weight_q16 != 0)) {
    bool zero;
    block = alloc_sampled(size, alignment, hk_class_bytes(class_index), weight_q16, &zero);
    *sampled = block != NULL;
    if (block == NULL) block = try_small(class_index, for_request, NULL);
  }
  if (block != NULL) return block;
  (void)hk_reclaim(0);
  block = try_small(class_index, for_request, NULL);
  return block != NULL ? block : out_of_memory();
}

void *hk_alloc_of_class(unsigned class_index, size_t alignment, size_t size) {
  hk_count_request(hk_class_bytes(class_index));
  hk_block_t *block = pop(hk_thread_heap->bin, class_index);
  bool sampled;
  return block != NULL ? block : alloc_small_slow(class_index, alignment, size, &sampled);
}

void *hk_alloc_slow(size_t size) {
  bool sampled;
  if (size <= HK_MID_MAX_BYTES) {
    return alloc_small_slow(hk_class_of(size > 0 ? size : 1), HK_BLOCK_ALIGNMENT, size, &sampled);
  }
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

/* NULL, and errno as it was, when the system refuses. */
HK_INLINE void *find_large(size_t size, size_t alignment, bool *zero) {
  if (size <= HK_RUN_MAX_BYTES && alignment <= HK_SLAB_BYTES) {
    *zero = false;
    void *spare = take_spare_run(size);
    if (spare != NULL) return spare;
  }
  if (size > (size_t)PTRDIFF_MAX) return NULL;
  hk_lifecycle_start(); /* this may be the process's first request */
  hk_purger_consider();
  hk_reclaim_remote();
  void *block = try_large(size, alignment, zero);
  if (block == NULL) {
    (void)hk_reclaim(0);
    block = try_large(size, alignment, zero);
  }
  return block;
}

static HK_NOINLINE void *obtain_large(size_t size, size_t alignment, bool *zero) {
  return find_large(size, alignment, zero);
}

static size_t large_good_size(size_t size) {
  return size <= HK_RUN_MAX_BYTES ? hk_run_good_size(size) : hk_big_good_size(size);
}

/* NULL when the request is none to be sampled. */
static HK_NOINLINE void *sample_large(size_t size, size_t alignment, bool *zero) {
  size_t bytes = large_good_size(size);
  uint64_t rate;
  if (bytes == 0 || hk_profile_is_inside() || !hk_sampled_large_is_due(bytes, &rate)) return NULL;
  return alloc_sampled(size, alignment, bytes, hk_sampling_weight(bytes, rate), zero);
}

void *hk_alloc_large(size_t size, size_t alignment, bool *zero) {
  if (HK_UNLIKELY(hk_sampling_is_on())) {
    void *sampled = sample_large(size, alignment, zero);
    if (sampled != NULL) return sampled;
  }
  void *block = find_large(size, alignment, zero);
  return block != NULL ? block : out_of_memory();
}

static bool is_small(size_t size) { return size <= HK_MID_MAX_BYTES; }

static void *calloc_small(size_t size) {
  size_t least = size > 0 ? size : 1;
  unsigned class_index = hk_class_of(least);
  bool fresh = hk_bin_is_fresh(&hk_thread_heap->bin[class_index]);
  hk_block_t *block = pop(hk_thread_heap->bin, class_index);
  if (block == NULL) {
    bool sampled = false;
    block = alloc_small_slow(class_index, HK_BLOCK_ALIGNMENT, size, &sampled);
    if (block == NULL) return NULL;
    fresh = !sampled && hk_bin_was_fresh(&hk_thread_heap->bin[class_index], class_index);
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
  size_t offset = (uintptr_t)block % HK_SLAB_BYTES; /* of a sampled one */
  hk_big_clear((char *)block - offset, offset + bytes);
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

static void free_sampled(const hk_finding_t *finding, void *block) {
  if (hk_profile_forget((uintptr_t)block, true)) {
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
  char *start = (char *)finding->start;
  size_t whole = finding->offset + size;
  switch (hk_slab_state(finding->slab)) {
    case hk_slab_small:
      return stays(finding->bytes, size) ? block : NULL;
    case hk_slab_run:
      if (is_small(size) || whole > HK_RUN_MAX_BYTES || !hk_run_resize(finding->slab, whole)) return NULL;
      break;
    case hk_slab_big:
      if (whole <= HK_RUN_MAX_BYTES) return NULL;
      start = hk_big_resize(finding->slab, start, whole);
      if (start == NULL) return NULL;
      block = start + finding->offset;
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

static void *move_large(void *block, size_t bytes, size_t size, uint64_t weight_q16) {
  bool zero;
  void *moved = NULL;
  if (weight_q16 != 0) moved = alloc_sampled(size, HK_BLOCK_ALIGNMENT, large_good_size(size), weight_q16, &zero);
  if (moved == NULL) moved = obtain_large(with_room_to_grow(bytes, size), HK_BLOCK_ALIGNMENT, &zero);
  if (moved == NULL) moved = obtain_large(size, HK_BLOCK_ALIGNMENT, &zero);
  if (moved == NULL) return size > bytes ? out_of_memory() : block;
  memcpy(moved, block, size < bytes ? size : bytes);
  hk_free(block);
  return moved;
}

/* A sampled block was resized to where `block` is now. Where there is no room to know it, it becomes one that is not sampled:
 * its contents go to its start. */
static void *renew(const hk_finding_t *finding, void *before, void *block, size_t size, uint64_t weight_q16) {
  (void)hk_profile_forget((uintptr_t)before, false);
  size_t bytes = large_good_size(size);
  if (hk_profile_note((uintptr_t)block, finding->offset, size, bytes, weight_q16)) return block;
  return memmove((char *)block - finding->offset, block, size);
}

/* Of a block that was sampled, or while others are: it is one after if it was before, as far as that fits its new size. */
static HK_NOINLINE void *realloc_large(const hk_finding_t *finding, void *block, size_t size) {
  size_t bytes = finding->bytes;
  uint64_t weight_q16 = hk_sampled_weight_after((uintptr_t)block, finding->offset != 0, bytes, large_good_size(size));
  if (finding->offset != 0 || weight_q16 == 0) {
    void *same = resize(finding, block, size);
    if (same != NULL) return finding->offset != 0 ? renew(finding, block, same, size, weight_q16) : same;
  }
  return move_large(block, bytes, size, weight_q16);
}

static void *realloc_unusual(void *block, size_t size) {
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict != hk_verdict_live) {
    hk_misuse_address(hk_act_realloc, block);
    return out_of_memory();
  }
  if (size > (size_t)PTRDIFF_MAX) return out_of_memory();
  bool is_large = hk_slab_state(finding.slab) != hk_slab_small && !is_small(size);
  if (HK_UNLIKELY(is_large && (finding.offset != 0 || hk_sampling_is_on())))
    return realloc_large(&finding, block, size);
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
