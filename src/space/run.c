/* space/run.c - L3. See run.h. */
#include "space/run.h"

#include "base/atomic.h"
#include "space/large_prefault.h"
#include "space/superslab.h"

size_t hk_run_good_size(size_t bytes) { return hk_run_slabs(bytes) * HK_SLAB_BYTES; }

static void set_tail(hk_slab_t *head, unsigned from, unsigned to) {
  for (unsigned i = from; i < to; i++) {
    head[i].head = head;
    hk_slab_set_state(&head[i], hk_slab_run_tail);
  }
}

/* Returns whether the row of free slabs is a closed run. Rows stay together, so the second slab tells of all. */
static bool has_tails(const hk_slab_t *head) {
  return head->slab_count > 1 && hk_slab_state(&head[1]) == hk_slab_run_tail;
}

/* Clears the words of a free block at the start of the run: api/alloc.c says what would follow. The descriptor says
 * whether small blocks were there since a run last began here, without a look at the memory, which is cold. A copy that
 * realloc made can still bring such words. */
static void forget_blocks(hk_slab_t *head) {
  if (head->block_bytes == 0) return;
  head->block_bytes = 0;
  head->resident_pages = 0; /* where the span went with its blocks, `live` is not 0 */
  if (!head->is_zero) hk_block_unseal_if_free((hk_block_t *)hk_slab_start(head));
}

void *hk_run_alloc(size_t bytes, size_t alignment, bool *is_zero) {
  unsigned count = hk_run_slabs(bytes);
  unsigned alignment_slabs = alignment <= HK_SLAB_BYTES ? 1 : (unsigned)(alignment / HK_SLAB_BYTES);
  hk_slab_t *head = hk_superslab_acquire(count, alignment_slabs, hk_from_bottom);
  if (head == NULL) return NULL;
  *is_zero = head->is_zero;
  if (head->is_zero) hk_large_prefault_note_new(NULL, hk_slab_start(head), bytes);
  return hk_run_reopen(head);
}

void *hk_run_alloc_roomy(size_t bytes) {
  hk_slab_t *head = hk_superslab_acquire_roomy(hk_run_slabs(bytes));
  return head != NULL ? hk_run_reopen(head) : NULL;
}

void *hk_run_reopen(hk_slab_t *head) {
  unsigned count = head->slab_count;
  forget_blocks(head);
  head->head = head;
  head->named = NULL;
  if (HK_HARDENED) head->is_unshrunk = false;
  hk_store_relaxed(&head->bytes, count * HK_SLAB_BYTES);
  if (!has_tails(head)) set_tail(head, 1, count);
  hk_slab_set_state(head, hk_slab_run);
  return (void *)hk_slab_start(head);
}

bool hk_run_close(hk_slab_t *head) {
  uint8_t expected = hk_slab_run;
  if (!hk_compare_exchange_acquire(&head->state, &expected, (uint8_t)hk_slab_free)) return false;
  hk_large_prefault_note_end(hk_slab_start(head));
  return true;
}

void hk_run_retire_tails(hk_slab_t *head) {
  if (has_tails(head)) hk_slab_retire(head + 1, head->slab_count - 1u);
}

void hk_run_forget_pages(hk_slab_t *head) {
  if (head->resident_pages == 0) return;
  (void)hk_add_relaxed(&head->sparse.gone->gone_slabs, head->slab_count);
  (void)hk_add_relaxed(&head->sparse.gone->gone_pages, head->resident_pages);
  head->resident_pages = 0;
}

void hk_run_release(hk_slab_t *head) {
  hk_run_retire_tails(head);
  hk_superslab_release(head, head->slab_count);
}

bool hk_run_free(hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_run_forget_pages(head);
  hk_run_release(head);
  return true;
}

bool hk_run_resize(hk_slab_t *head, size_t bytes) {
  unsigned old_count = head->slab_count;
  unsigned new_count = hk_run_slabs(bytes);
  if (new_count != old_count) hk_large_prefault_note_end(hk_slab_start(head));
  if (new_count > old_count) {
    bool is_zero; /* unused: realloc promises nothing about the new part */
    if (!hk_superslab_extend(head + old_count, new_count - old_count, &is_zero)) return false;
    set_tail(head, old_count, new_count);
  }
  hk_run_forget_pages(head);
  head->slab_count = (uint8_t)new_count;
  hk_store_relaxed(&head->bytes, new_count * HK_SLAB_BYTES);
  if (new_count < old_count) {
    hk_slab_retire(head + new_count, old_count - new_count);
    hk_superslab_release(head + new_count, old_count - new_count);
  }
  return true;
}
