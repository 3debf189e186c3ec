/* heap/heap_check.c - L4. See heap_check.h. */
#include "heap/heap_check.h"

#include <limits.h>

#include "base/panic.h"
#include "space/region_map.h"
#include "space/short_span.h"
#include "space/superslab.h"

#if HK_DEBUG

/* Chosen: partial spans checked after each slow path of their class. The walk over the whole heap checks the rest. */
#define PARTIAL_LOOKS 2

/* Becomes false in a child of fork: hk_heap_check_note_fork. */
static _Atomic(bool) is_exact = true;

void hk_heap_check_note_fork(void) { hk_store_relaxed(&is_exact, false); }

/* ---- Lists of blocks. */

/* hk_free_list_measure for blocks of one span. Checks that each of them is a block of it. */
static bool measure_of_span(const hk_slab_t *span, const hk_block_t *list, unsigned *length) {
  for (*length = 0; list != HK_LIST_END; list = hk_block_next(list)) {
    if (*length == hk_span_capacity(span) || !hk_block_is_intact(list)) return false;
    uintptr_t distance = (uintptr_t)list - hk_slab_start(span);
    HK_REQUIRE(distance < span->slab_count * HK_SLAB_BYTES, "a free block lies in its span");
    HK_REQUIRE(hk_starts_has(&span->starts, distance % HK_SLAB_BYTES), "a free block is a block");
    ++*length;
  }
  return true;
}

/* ---- One span. */

static hk_slab_t *active_of(const hk_heap_t *heap, unsigned class_index) {
  return hk_load_relaxed(&((hk_heap_t *)heap)->state[class_index].active);
}

static void check_descriptors(const hk_heap_t *heap, const hk_slab_t *span) {
  HK_REQUIRE(hk_span_carved(span) <= hk_span_capacity(span), "no more is carved than there is room for");
  for (unsigned i = 0; i < span->slab_count; i++) {
    HK_REQUIRE(hk_slab_state(&span[i]) == hk_slab_small, "each slab of a span is in the state small");
    HK_REQUIRE(span[i].head == span, "each slab of a span knows its head");
    HK_REQUIRE(hk_slab_owner(&span[i]) == heap, "each slab of a span has the span's owner");
    HK_REQUIRE(span[i].free_list == span->free_list, "each slab of a span has the span's free list");
    HK_REQUIRE(span[i].class_index == span->class_index, "each slab of a span has the span's class");
  }
}

/* Checks a span's own list against its counts. `live` is the number of its other carved blocks. Returns false where the
 * list is damaged. */
static bool check_list(const hk_slab_t *span, unsigned live) {
  unsigned length, carved = hk_span_carved(span);
  HK_REQUIRE(live <= carved, "no more blocks are in use than were carved");
  bool is_whole = measure_of_span(span, span->own.free, &length);
  if (is_whole && hk_load_relaxed(&is_exact))
    HK_REQUIRE(length == carved - live, "a span's list is as long as its counts say");
  return is_whole;
}

static bool check_mid_span(const hk_heap_t *heap, const hk_slab_t *span) {
  HK_REQUIRE(span->free_list == hk_heap_effective_list(heap, span->class_index), "a mid span's frees go to its bin");
  bool is_whole = check_list(span, span->live);
  HK_REQUIRE(hk_list_is_linked(&span->link) == (span->own.free != HK_LIST_END),
             "a mid span is partial while its list has blocks");
  return is_whole;
}

static bool check_resting_span(const hk_slab_t *span) {
  HK_REQUIRE(span->free_list == &span->own, "an inactive span's frees go to itself");
  HK_REQUIRE(span->own.countdown <= span->own.start, "an inactive span counts down from its start");
  unsigned back = span->own.start - span->own.countdown;
  HK_REQUIRE(back <= span->live, "no more blocks come back than went out");
  bool is_whole = check_list(span, span->live - back);
  if (!hk_list_is_linked(&span->link)) return is_whole;
  HK_REQUIRE(span->own.countdown == span->live - back, "a partial span is due when all its blocks are free");
  bool has_any = span->own.free != HK_LIST_END || hk_span_carved(span) < hk_span_capacity(span);
  HK_REQUIRE(has_any, "a partial span has a free block or room");
  return is_whole;
}

/* Returns false where the span's list is damaged. */
static bool check_span(const hk_heap_t *heap, const hk_slab_t *span) {
  check_descriptors(heap, span);
  if (hk_class_is_mid(span->class_index)) return check_mid_span(heap, span);
  if (active_of(heap, span->class_index) != span) return check_resting_span(span);
  HK_REQUIRE(span->free_list == hk_heap_effective_list(heap, span->class_index),
             "an active span's frees go to its bin");
  return true;
}

void hk_span_check(const hk_heap_t *heap, const hk_slab_t *span) {
  HK_REQUIRE(check_span(heap, span), "a free block is sealed");
}

/* Checks also what holds only between slow paths: a span without a block in use is given back. Returns the steps. */
static uint64_t check_settled_span(const hk_heap_t *heap, const hk_slab_t *span) {
  (void)check_span(heap, span);
  bool is_active_tiny = !hk_class_is_mid(span->class_index) && active_of(heap, span->class_index) == span;
  bool is_untouched = hk_span_carved(span) == 0;
  if (!is_active_tiny && !is_untouched) HK_REQUIRE(span->live > 0, "a span without a block in use is given back");
  return span->slab_count + (is_active_tiny ? 0 : hk_span_carved(span) - span->live);
}

/* ---- One class. */

static void check_active_tiny(hk_heap_t *heap, const hk_slab_t *span, unsigned length) {
  HK_REQUIRE(span->own.free == HK_LIST_END, "an active span's free blocks are its bin's");
  HK_REQUIRE(!hk_list_is_linked(&span->link), "an active span is in no list");
  HK_REQUIRE(length <= hk_span_carved(span), "a bin has no more blocks than were carved");
  HK_REQUIRE(!hk_bin_is_fresh(hk_heap_effective_list(heap, span->class_index)) || span->is_zero,
             "a fresh list is of a zero span");
}

/* Checks the counts that a sampled heap keeps of a bin's list. */
static void check_counted(const hk_heap_t *heap, unsigned class_index, unsigned length) {
  const hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (countdown->start_length == HK_COUNTDOWN_UNKNOWN) return;
  const hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  uint32_t counted = hk_heap_list_sum(countdown, list);
  if (list == &heap->bin[class_index]) {
    HK_REQUIRE(length <= counted, "an open bin has at most what it was given and what came back");
  } else {
    HK_REQUIRE(length == counted, "a closed bin's effective free list is as long as it has counted");
  }
}

/* Returns the length of the bin's list, as check_mid_bin does. */
static unsigned check_tiny_bin(hk_heap_t *heap, unsigned class_index) {
  const hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  const hk_slab_t *span = active_of(heap, class_index);
  if (span == NULL) {
    HK_REQUIRE(list->free == HK_LIST_END, "a bin without an active span has no blocks");
    return 0;
  }
  unsigned length;
  if (!measure_of_span(span, list->free, &length)) return length;
  check_active_tiny(heap, span, length);
  if (hk_heap_is_sampled(heap) && hk_load_relaxed(&is_exact)) check_counted(heap, class_index, length);
  return length;
}

static void check_metered(const hk_heap_t *heap, unsigned class_index, unsigned length) {
  HK_REQUIRE(hk_heap_is_sampled(heap), "a metered bin is of a sampled heap");
  const hk_sample_countdown_t *countdown = &heap->countdowns->of[class_index];
  if (countdown->start_length == HK_COUNTDOWN_UNKNOWN) return;
  uint32_t counted = hk_heap_metered_sum(countdown, &heap->bin[class_index]);
  HK_REQUIRE(length <= counted, "a metered bin has at most its blocks and what came back");
  HK_REQUIRE(countdown->start_length <= countdown->until, "a metered bin's blocks end at the next sample");
}

static unsigned check_mid_bin(hk_heap_t *heap, unsigned class_index) {
  const hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  unsigned length, room = heap->state[class_index].room;
  bool is_metered = list->pop_step == 0;
  if (!hk_free_list_measure(list->free, is_metered ? HK_METERED_MAX_BLOCKS : room, &length) ||
      !hk_load_relaxed(&is_exact))
    return length;
  HK_REQUIRE(list->countdown > 0, "a mid bin that is full is spilled at once");
  if (is_metered) {
    check_metered(heap, class_index, length);
  } else {
    HK_REQUIRE(length + list->countdown == room, "a mid bin's list and countdown add up to its room");
  }
  for (const hk_block_t *block = list->free; block != HK_LIST_END; block = hk_block_next(block)) {
    const hk_slab_t *slab = hk_slab_of(block);
    HK_REQUIRE(hk_slab_owner(slab) == heap && slab->class_index == class_index,
               "a mid bin has blocks of its own spans");
  }
  return length;
}

/* Returns the number of steps. */
static uint64_t check_partial(const hk_heap_t *heap, unsigned class_index, unsigned most) {
  const hk_list_t *list = &heap->state[class_index].partial;
  uint64_t steps = 0;
  if (!hk_list_is_linked(list)) return 0;
  for (const hk_list_t *node = list->next; node != list && most > 0; node = node->next, most--) {
    const hk_slab_t *span = HK_CONTAINER_OF(node, hk_slab_t, link);
    HK_REQUIRE(node->next->previous == node, "a list of partial spans is whole");
    HK_REQUIRE(span->class_index == class_index, "a partial span is in its class's list");
    steps += check_settled_span(heap, span);
  }
  return steps;
}

static uint64_t check_class(hk_heap_t *heap, unsigned class_index, unsigned partial_looks) {
  const hk_slab_t *active = active_of(heap, class_index);
  uint64_t steps = 1;
  if (active != NULL) steps += check_settled_span(heap, active);
  steps += hk_class_is_mid(class_index) ? check_mid_bin(heap, class_index) : check_tiny_bin(heap, class_index);
  return steps + check_partial(heap, class_index, partial_looks);
}

void hk_heap_check_class(hk_heap_t *heap, unsigned class_index) {
  (void)check_class(heap, class_index, PARTIAL_LOOKS);
  hk_heap_check(heap);
}

void hk_heap_check_span(hk_heap_t *heap, const hk_slab_t *slab) {
  if (hk_slab_owner(slab) == heap) (void)check_settled_span(heap, slab->head);
  hk_heap_check(heap);
}

/* ---- Spare slabs and outboxes. */

static void check_spare_row(const hk_slab_t *head) {
  hk_slab_state_t of_others = head->slab_count > 1 ? hk_slab_state(&head[1]) : hk_slab_free;
  HK_REQUIRE(hk_slab_state(head) == hk_slab_free, "the first slab of a spare row is in the state free");
  HK_REQUIRE(of_others == hk_slab_free || of_others == hk_slab_run_tail, "the others are free, or tails");
  for (unsigned i = 0; i < head->slab_count; i++) {
    HK_REQUIRE(hk_slab_owner(&head[i]) == NULL, "a spare slab has no owner");
    if (i == 0) continue;
    HK_REQUIRE(hk_slab_state(&head[i]) == of_others, "all slabs of a row behind the first one are in one state");
    HK_REQUIRE(of_others == hk_slab_free || head[i].head == head, "a tail of a spare row knows its head");
  }
}

static uint32_t check_spare_list(const hk_list_t *list, unsigned slab_count) {
  uint32_t slabs = 0;
  for (const hk_list_t *node = list->next; node != list; node = node->next) {
    const hk_slab_t *head = HK_CONTAINER_OF(node, hk_slab_t, link);
    HK_REQUIRE(node->next->previous == node, "a list of spare slabs is whole");
    HK_REQUIRE(head->slab_count == slab_count, "a spare row is in the list of its length");
    check_spare_row(head);
    slabs += slab_count;
  }
  return slabs;
}

static void check_sparse(const hk_sparse_t *sparse) {
  hk_sparse_t *object = (hk_sparse_t *)sparse;
  size_t slabs = 0, pages = 0, kept = hk_load_relaxed(&object->kept.slabs);
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) {
    for (const hk_slab_t *head = sparse->of_length[i]; head != NULL; head = head->sparse.next) {
      HK_REQUIRE(slabs < kept, "the sparse runs that are kept are no more than their sum");
      HK_REQUIRE(head->slab_count == i + 1, "a sparse run is in the list of its length");
      HK_REQUIRE(hk_sparse_is_known(head), "a sparse run that is kept has known pages");
      HK_REQUIRE(head->sparse.gone == &sparse->gone, "a sparse run that is kept is known to its heap");
      check_spare_row(head);
      slabs += head->slab_count;
      pages += head->resident_pages;
    }
  }
  HK_REQUIRE(slabs == kept && pages == sparse->kept.pages,
             "the sum of the sparse runs that are kept is what they have");
  HK_REQUIRE(hk_load_relaxed(&object->known.slabs) >= kept + hk_load_relaxed(&object->gone.gone_slabs) &&
                 sparse->known.pages >= pages + hk_load_relaxed(&object->gone.gone_pages),
             "the sparse runs that are kept, and those that ended elsewhere, are known");
}

void hk_heap_check_spare(const hk_heap_t *heap) {
  check_sparse(&heap->sparse);
  uint32_t slabs = 0;
  for (unsigned i = 0; i < HK_RUN_MAX_SLABS; i++) slabs += check_spare_list(&heap->spare[i], i + 1);
  HK_REQUIRE(slabs == hk_load_relaxed(&((hk_heap_t *)heap)->spare_slabs),
             "the count of spare slabs is how many there are");
  if (heap->reserve == NULL) return;
  HK_REQUIRE(heap->reserve->slab_count > 0, "a reserve has slabs");
  check_spare_row(heap->reserve);
}

static void check_batch(const hk_batch_t *batch) {
  if (batch->owner == NULL) return;
  HK_REQUIRE(batch->left_bytes > 0, "a batch that is full is sent at once");
  HK_REQUIRE(batch->first != NULL && batch->last != NULL, "a batch has blocks");
}

/* ---- The whole heap. */

typedef struct {
  hk_heap_t *heap;
  uint32_t slabs;
  uint64_t steps;
} walked_t;

static void visit(hk_slab_t *slabs, void *context) {
  walked_t *walked = context;
  walked->steps += HK_SUPERSLAB_SLABS;
  for (unsigned i = 0; i < HK_SUPERSLAB_SLABS; i++) {
    const hk_slab_t *slab = &slabs[i];
    if (hk_slab_owner(slab) != walked->heap) continue;
    walked->slabs++;
    if (slab->head == slab) walked->steps += check_settled_span(walked->heap, slab);
    HK_REQUIRE(hk_slab_owner(slab->head) == walked->heap, "each slab of a span has the span's owner");
  }
}

/* Returns the number of steps. Leaves the spans to a later walk while the purge thread has claimed them: it may be
 * releasing some. */
static uint64_t check_spans(hk_heap_t *heap) {
  if (!hk_heap_claim_spans(heap)) return 1;
  walked_t walked = {.heap = heap};
  hk_superslab_visit(visit, &walked);
  uint32_t counted = hk_load_relaxed(&heap->span_slabs) - hk_load_relaxed(&heap->shared.drained_slabs);
  hk_heap_unclaim_spans(heap);
  if (hk_load_relaxed(&is_exact)) HK_REQUIRE(walked.slabs == counted, "the count of a heap's slabs is how many it has");
  return walked.steps;
}

static uint64_t check_all(hk_heap_t *heap) {
  const hk_free_list_t *list = hk_load_relaxed(&heap->effective_lists);
  HK_REQUIRE(list == heap->bin || (heap->countdowns != NULL && list == heap->countdowns->shadow),
             "a heap's effective lists are its own");
  uint64_t steps = 0;
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) steps += check_class(heap, i, UINT_MAX);
  for (unsigned i = 0; i < HK_OUTBOX_PLACES; i++) check_batch(&heap->outbox[i]);
  hk_heap_check_spare(heap);
  return steps + check_spans(heap);
}

void hk_heap_check(hk_heap_t *heap) {
  if (!hk_walk_is_due(&heap->walk)) return;
  hk_walk_end(&heap->walk, check_all(heap));
}

void hk_heap_check_at_rest(hk_heap_t *heap) {
  if (!hk_load_relaxed(&is_exact)) return;
  HK_REQUIRE(!heap->is_visited, "a heap that is given back is not visited");
  for (unsigned i = 0; i < HK_OUTBOX_PLACES; i++)
    HK_REQUIRE(heap->outbox[i].owner == NULL, "a heap that is given back has sent its batches");
  for (unsigned i = 1; i < HK_CLASS_COUNT && hk_heap_is_sampled(heap); i++) {
    bool is_open = hk_heap_effective_list(heap, i) == &heap->bin[i];
    HK_REQUIRE(is_open || heap->bin[i].free == HK_LIST_END, "a heap that is given back has nothing in closed bins");
  }
  hk_heap_check(heap);
}

#endif
