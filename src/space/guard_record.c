/* space/guard_record.c - L3. See guard_record.h. */
#include "space/guard_record.h"

static void begin_change(hk_guard_record_t *record) {
  hk_store_release(&record->sequence, hk_load_relaxed(&record->sequence) + 1);
}

/* Each store pairs with an acquire load of hk_guard_record_read. */
static void end_change(hk_guard_record_t *record, hk_guard_state_t state) {
  hk_store_release(&record->state, (uint8_t)state);
  hk_store_release(&record->sequence, hk_load_relaxed(&record->sequence) + 1);
}

void hk_guard_record_write_allocated(hk_guard_record_t *record, const hk_guard_view_t *view, uintptr_t mapping,
                                     size_t mapping_bytes) {
  begin_change(record);
  hk_store_release(&record->start, view->start);
  hk_store_release(&record->bytes, view->bytes);
  hk_store_release(&record->named, view->named);
  hk_store_release(&record->pages, view->pages);
  hk_store_release(&record->pages_bytes, view->pages_bytes);
  hk_store_release(&record->mapping, mapping);
  hk_store_release(&record->mapping_bytes, mapping_bytes);
  hk_store_release(&record->alloc_site, view->allocated.site);
  hk_store_release(&record->alloc_thread, view->allocated.thread);
  hk_store_release(&record->alloc_ms, view->allocated.ms);
  hk_store_release(&record->free_site, NULL);
  hk_store_release(&record->free_thread, 0);
  hk_store_release(&record->free_ms, 0);
  end_change(record, hk_guard_live);
}

void hk_guard_record_write_freed(hk_guard_record_t *record, const hk_guard_deed_t *deed) {
  begin_change(record);
  hk_store_release(&record->free_site, deed->site);
  hk_store_release(&record->free_thread, deed->thread);
  hk_store_release(&record->free_ms, deed->ms);
  end_change(record, hk_guard_freed);
}

void hk_guard_record_write_unused(hk_guard_record_t *record) {
  begin_change(record);
  hk_store_release(&record->start, 0);
  end_change(record, hk_guard_unused);
}

void hk_guard_record_write_unmapped(hk_guard_record_t *record) {
  begin_change(record);
  hk_store_release(&record->mapping, 0);
  hk_store_release(&record->start, 0);
  hk_store_release(&record->pages_bytes, 0);
  end_change(record, hk_guard_unused);
}

/* Reads the fields in the reverse order of their writes: after the first new one, all are new. */
void hk_guard_record_copy(hk_guard_record_t *record, hk_guard_view_t *view) {
  view->freed.ms = hk_load_acquire(&record->free_ms);
  view->freed.thread = hk_load_acquire(&record->free_thread);
  view->freed.site = hk_load_acquire(&record->free_site);
  view->allocated.ms = hk_load_acquire(&record->alloc_ms);
  view->allocated.thread = hk_load_acquire(&record->alloc_thread);
  view->allocated.site = hk_load_acquire(&record->alloc_site);
  view->pages_bytes = hk_load_acquire(&record->pages_bytes);
  view->pages = hk_load_acquire(&record->pages);
  view->named = hk_load_acquire(&record->named);
  view->bytes = hk_load_acquire(&record->bytes);
  view->start = hk_load_acquire(&record->start);
}

bool hk_guard_record_read(hk_guard_record_t *record, hk_guard_view_t *view) {
  uint32_t sequence = hk_load_acquire(&record->sequence);
  uint8_t state = hk_load_acquire(&record->state);
  if (sequence == 0 || sequence % 2 != 0 || state == hk_guard_unused) return false;
  hk_guard_record_copy(record, view);
  bool is_whole = hk_load_relaxed(&record->sequence) == sequence;
  view->state = view->freed.ms != 0 ? hk_guard_freed : hk_guard_live;
  return is_whole;
}

bool hk_guard_record_has(hk_guard_record_t *record, uintptr_t address) {
  uint32_t sequence = hk_load_acquire(&record->sequence);
  uintptr_t mapping = hk_load_acquire(&record->mapping);
  bool is_inside = mapping != 0 && address - mapping < hk_load_acquire(&record->mapping_bytes);
  return is_inside && sequence % 2 == 0 && hk_load_relaxed(&record->sequence) == sequence;
}
