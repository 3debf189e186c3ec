/* heap/search.c - L4. See search.h. The search reads lists of other threads while they change. It checks every link
 * before it follows it. Where another thread owns the next word, the system reads it, and tells when the memory has
 * gone meanwhile. The search follows no more links than a list can sensibly have. */
#include "heap/search.h"

#include "heap/remote.h"
#include "heap/span.h"
#include "heap/thread.h"
#include "os/peek.h"
#include "space/live_bit.h"
#include "space/region_map.h"

/* Chosen: lists are shorter, except the incoming list of a thread that does not collect. A ring ends here too. */
#define STEPS_MAX (1u << 17)

/* Returns whether `block` is a carved block of a span of `owner`; of any heap when that is NULL. */
static bool is_block_of(const hk_heap_t *owner, const hk_block_t *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_slab_state(slab) != hk_slab_small) return false;
  return (owner == NULL || hk_slab_owner(slab) == owner) && hk_span_has_block(hk_load_racy(&slab->head), block);
}

/* Reads a word that belongs to the thread that has `heap`. Spans to which the caller's own lists lead stay mapped
 * during the search. Another thread may change and unmap its spans at any moment, so the system reads those. */
static bool read_word(const hk_heap_t *heap, const void *address, void **word) {
  if (heap != hk_thread_own()) return hk_os_peek(address, word);
  *word = hk_load_racy((void *const *)address);
  return true;
}

/* Reads the link of a block on a list of blocks of `owner`. With NULL the list is of blocks under way. The purge thread
 * may take such a list and release the blocks' spans, the caller's too. */
static bool read_link(const hk_heap_t *owner, const hk_block_t *from, void **link) {
  if (owner == NULL) return hk_os_peek(&from->next, link);
  return read_word(hk_slab_owner(hk_slab_of(from)), &from->next, link);
}

static bool is_on_list(const hk_heap_t *owner, const hk_block_t *list, const hk_block_t *block) {
  for (unsigned steps = 0; steps < STEPS_MAX && list != HK_LIST_END && is_block_of(owner, list); steps++) {
    if (list == block) return true;
    void *link;
    if (!read_link(owner, list, &link)) return false;
    list = hk_remote_next(link);
  }
  return false;
}

/* Returns whether the list that begins at `head`, a variable of the thread that has `heap`, leads to the block. */
static bool is_listed(const hk_heap_t *heap, hk_block_t *const *head, const hk_heap_t *owner, const hk_block_t *block) {
  void *first;
  return read_word(heap, head, &first) && is_on_list(owner, first, block);
}

/* Returns whether the block is in a batch for `owner`; for any heap when that is NULL. A block in a batch may have
 * another owner: its span has moved. */
static bool is_in_outbox(const hk_heap_t *heap, const hk_heap_t *owner, const hk_block_t *block) {
  for (unsigned i = 0; i < HK_OUTBOX_PLACES; i++) {
    const hk_batch_t *batch = &heap->outbox[i];
    void *addressee;
    if (!read_word(heap, &batch->owner, &addressee) || addressee == NULL) continue;
    if (owner != NULL && addressee != owner) continue;
    if (is_listed(heap, &batch->first, NULL, block)) return true;
  }
  return false;
}

static bool is_incoming(hk_heap_t *heap, const hk_block_t *block) {
  return is_on_list(NULL, hk_load_acquire(&heap->shared.incoming), block);
}

/* Returns whether the block's link has the under-way bit, as the links of blocks under way alone have. A live block
 * that looks free mostly holds the link of an ordinary free list, from the time before its allocation. For such a block
 * the search ends here: the rest makes a system call for each block under way and for each batch of each heap. */
static bool may_be_under_way(const hk_block_t *block) {
  void *link;
  return hk_os_peek(&block->next, &link) && hk_remote_is_under_way(link);
}

/* Returns whether the bin of the class leads to the block, or the shadow list of a sampled heap. The blocks move from
 * one to the other when the owner begins to be sampled, and when it ends, so both are searched. Follows
 * `effective_lists` and not `countdowns`: the caller may not see yet what that leads to. */
static bool is_in_class(hk_heap_t *owner, unsigned class_index, const hk_block_t *block) {
  const hk_free_list_t *before = hk_load_relaxed(&owner->effective_lists);
  if (before != owner->bin && is_listed(owner, &before[class_index].free, owner, block)) return true;
  if (is_listed(owner, &owner->bin[class_index].free, owner, block)) return true;
  const hk_free_list_t *after = hk_load_relaxed(&owner->effective_lists);
  return after != before && after != owner->bin && is_listed(owner, &after[class_index].free, owner, block);
}

bool hk_search_free(hk_slab_t *span, const hk_block_t *block) {
  if (HK_HARDENED) return !hk_live_bit_is_set(hk_live_bit_of(block));
  hk_heap_t *owner = hk_slab_owner(span);
  if (owner == NULL) return false;
  if (is_in_class(owner, span->class_index, block)) return true;
  if (is_listed(owner, &span->own.free, owner, block)) return true;
  if (!may_be_under_way(block)) return false;
  if (is_incoming(owner, block)) return true;
  bool has_moved = hk_load_racy(&span->has_moved);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_in_outbox(heap, has_moved ? NULL : owner, block)) return true;
    if (has_moved && is_incoming(heap, block)) return true;
  }
  return false;
}

/* The program may have made its own block unreadable. The peek then fails, and the block counts as live. */
bool hk_search_may_be_free(const hk_block_t *block) {
  if (HK_HARDENED) return !hk_live_bit_is_set(hk_live_bit_of(block));
#if HK_SAFETY
  void *next, *seal;
  if (!hk_os_peek(&block->next, &next) || !hk_os_peek(&block->seal, &seal)) return false;
  hk_block_t copy = {.next = next, .seal = (uintptr_t)seal};
  return hk_block_looks_free(&copy);
#else
  void *next;
  return hk_os_peek(&block->next, &next);
#endif
}
