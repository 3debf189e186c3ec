/* heap/search.c - L4. See search.h. Lists of other threads are read while they change: every link is checked before
 * it is followed; where another thread owns what it leads to, the system reads it, which says so when the memory has gone
 * meanwhile; and no more links are followed than a list can sensibly have. */
#include "heap/search.h"

#include "heap/remote.h"
#include "heap/span.h"
#include "heap/thread.h"
#include "os/peek.h"
#include "space/region_map.h"

/* A whole word, as it is at some moment; its writer stores it plainly. */
#define LOAD_RACY(object) __atomic_load_n((object), __ATOMIC_RELAXED)

/* Chosen: lists are shorter, but for what comes home to a thread that takes nothing. A ring ends here too. */
#define STEPS_MAX (1u << 17)

/* `owner` NULL: whoever owns it. */
static bool is_block_of(const hk_heap_t *owner, const hk_block_t *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_slab_state(slab) != hk_slab_small) return false;
  return (owner == NULL || hk_load_relaxed(&slab->owner) == owner) && hk_span_has_block(LOAD_RACY(&slab->head), block);
}

/* The caller's own spans stay where they are while it looks. */
static bool read_link(const hk_block_t *from, void **link) {
  if (hk_load_relaxed(&hk_slab_of(from)->owner) != hk_thread_own()) return hk_os_peek(&from->next, link);
  *link = LOAD_RACY(&from->next);
  return true;
}

static bool is_on_list(const hk_heap_t *owner, const hk_block_t *list, const hk_block_t *block) {
  for (unsigned steps = 0; steps < STEPS_MAX && list != HK_LIST_END && is_block_of(owner, list); steps++) {
    if (list == block) return true;
    void *link;
    if (!read_link(list, &link)) return false;
    list = hk_remote_next(link);
  }
  return false;
}

/* `owner` NULL: whoever it is for. What is on its way to one heap may be of another: its span has moved. */
static bool is_in_outbox(const hk_heap_t *heap, const hk_heap_t *owner, const hk_block_t *block) {
  for (unsigned i = 0; i < HK_OUTBOX_SLOTS; i++) {
    const hk_outgoing_t *batch = &heap->outbox[i];
    const hk_heap_t *addressee = LOAD_RACY(&batch->owner);
    if (addressee == NULL || (owner != NULL && addressee != owner)) continue;
    if (is_on_list(NULL, LOAD_RACY(&batch->first), block)) return true;
  }
  return false;
}

static bool is_coming(hk_heap_t *heap, const hk_block_t *block) {
  return is_on_list(NULL, hk_load_acquire(&heap->shared.incoming), block);
}

bool hk_search_free(hk_slab_t *span, const hk_block_t *block) {
  hk_heap_t *owner = hk_load_relaxed(&span->owner);
  if (owner == NULL) return false;
  if (is_on_list(owner, LOAD_RACY(&owner->bin[span->class_index].free), block)) return true;
  if (is_on_list(owner, LOAD_RACY(&hk_heap_home(owner, span->class_index)->free), block)) return true;
  if (is_on_list(owner, LOAD_RACY(&span->own.free), block)) return true;
  if (is_coming(owner, block)) return true;
  bool moved = LOAD_RACY(&span->moved);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (is_in_outbox(heap, moved ? NULL : owner, block)) return true;
    if (moved && is_coming(heap, block)) return true;
  }
  return false;
}
