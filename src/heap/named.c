/* heap/named.c - L4. See named.h. */
#include "heap/named.h"

#include <string.h>

#include "base/count.h"
#include "os/lock.h"
#include "space/meta.h"
#include "space/region_map.h"

/* Pushed to under hk_lock_heap_pool, read without: newest first. */
static _Atomic(hk_named_t *) all;

/* Guarded by hk_lock_heap_pool. A child of fork that finds it half changed loses a record. */
static hk_named_t *first_free;
static size_t record_count;

/* `entry_offset` of a record that is in no list yet. */
#define NO_ENTRY SIZE_MAX

hk_named_t *hk_named_first(void) { return hk_load_acquire(&all); }

static hk_named_t *take_free_locked(void) {
  hk_named_t *named = first_free;
  if (named != NULL) first_free = named->free_next;
  return named;
}

static void enter_locked(hk_named_t *named) {
  named->entry_offset = record_count++ % HK_PART_ENTRIES * sizeof(hk_part_entry_t);
  named->all_next = hk_load_relaxed(&all);
  hk_store_release(&all, named); /* with hk_named_first */
}

static void drop_locked(hk_named_t *named) {
  hk_store_relaxed(&named->kind, hk_named_free);
  named->free_next = first_free;
  hk_keep_store_order();
  first_free = named;
}

static void set_name(char *to, const char *name) {
  size_t length = 0;
  for (; length < HK_NAMED_NAME_BYTES - 1 && name[length] != '\0'; length++) to[length] = name[length];
  for (; length < HK_NAMED_NAME_BYTES; length++) to[length] = '\0';
}

/* A tag's name never changes, and is there before its kind. */
static hk_named_t *find_tag(const char *name) {
  hk_named_t *named = hk_named_first();
  while (named != NULL && (hk_load_acquire(&named->kind) != hk_named_tag || strcmp(named->name, name) != 0))
    named = named->all_next;
  return named;
}

static void clear(hk_named_t *named) {
  hk_store_relaxed(&named->bytes, 0);
  hk_store_relaxed(&named->peak_bytes, 0);
  hk_store_relaxed(&named->larger_bytes, 0);
  hk_store_relaxed(&named->larger_count, 0);
  hk_store_relaxed(&named->larger_allocated_count, 0);
  hk_store_relaxed(&named->larger_allocated_bytes, 0);
  hk_store_relaxed(&named->soft_bytes, 0);
  hk_store_relaxed(&named->hard_bytes, 0);
  hk_store_relaxed(&named->soft_count, 0);
  hk_store_relaxed(&named->refused_count, 0);
  hk_store_relaxed(&named->is_crossed, false);
  hk_list_init(&named->larger);
  named->is_changing = named->reports_leaks = false;
  named->callback = NULL;
  named->context = NULL;
}

static hk_named_t *take_or_make(void) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_named_t *named = take_free_locked();
  hk_lock_release(hk_lock_heap_pool);
  if (named != NULL) return named;
  named = hk_meta_alloc(sizeof *named);
  if (named != NULL) named->entry_offset = NO_ENTRY;
  return named;
}

/* Makes the record visible. Returns the tag that another thread has made of the same name meanwhile, if any. */
static hk_named_t *enter(hk_named_t *named, hk_named_kind_t kind) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_named_t *same = kind == hk_named_tag ? find_tag(named->name) : NULL;
  if (same == NULL) hk_store_release(&named->kind, (uint8_t)kind); /* with find_tag */
  if (named->entry_offset == NO_ENTRY) enter_locked(named);
  if (same != NULL) drop_locked(named);
  hk_lock_release(hk_lock_heap_pool);
  return same != NULL ? same : named;
}

hk_named_t *hk_named_create(hk_named_kind_t kind, const char *name) {
  char own_name[HK_NAMED_NAME_BYTES];
  set_name(own_name, name);
  hk_named_t *named = kind == hk_named_tag ? find_tag(own_name) : NULL;
  if (named != NULL) return named;
  named = take_or_make();
  if (named == NULL) return NULL;
  clear(named);
  memcpy(named->name, own_name, sizeof own_name);
  return enter(named, kind);
}

void hk_named_drop(hk_named_t *named) {
  hk_lock_acquire(hk_lock_heap_pool);
  drop_locked(named);
  hk_lock_release(hk_lock_heap_pool);
}

/* ---- Charges. */

static void note_peak(hk_named_t *named, size_t bytes) {
  size_t peak = hk_load_relaxed(&named->peak_bytes);
  while (bytes > peak && !hk_compare_exchange_weak_release(&named->peak_bytes, &peak, bytes)) {
  }
}

static bool is_within(size_t hard, size_t before, size_t bytes) {
  size_t after = before + bytes;
  return hard == 0 || (after <= hard && after >= before);
}

static bool refuse(hk_named_t *named) {
  (void)hk_add_relaxed(&named->refused_count, 1);
  return false;
}

bool hk_named_allows(hk_named_t *named, size_t bytes) {
  bool is_allowed = bytes == 0 || is_within(hk_load_relaxed(&named->hard_bytes), hk_load_relaxed(&named->bytes), bytes);
  return is_allowed || refuse(named);
}

/* A refused charge never shows in the sum: it would refuse what other threads charge meanwhile. */
bool hk_named_reserve(hk_named_t *named, size_t bytes, size_t *after) {
  hk_count(hk_count_shared_update, 1);
  size_t hard = hk_load_relaxed(&named->hard_bytes), before = hk_load_relaxed(&named->bytes);
  do {
    if (HK_UNLIKELY(!is_within(hard, before, bytes))) return refuse(named);
  } while (!hk_compare_exchange_weak_release(&named->bytes, &before, before + bytes));
  *after = before + bytes;
  return true;
}

/* Returns whether a charge of `bytes`, after which the sum was `after`, took it above the soft limit. */
static bool is_crossing(size_t soft, size_t bytes, size_t after) {
  return HK_UNLIKELY(soft != 0 && after - bytes <= soft && after > soft);
}

static void note_crossing(hk_named_t *named) {
  (void)hk_add_relaxed(&named->soft_count, 1);
  hk_store_relaxed(&named->is_crossed, true);
}

static void note_rise(hk_named_t *named, size_t bytes, size_t after) {
  note_peak(named, after);
  if (is_crossing(hk_load_relaxed(&named->soft_bytes), bytes, after)) note_crossing(named);
}

/* Takes back a charge that was reserved. If that charge took the sum above the soft limit, and the sum stays above it
 * now, then a later charge has crossed the limit. That one found the sum above the limit already and noted nothing. */
static void cancel(hk_named_t *named, size_t bytes, size_t after) {
  hk_count(hk_count_shared_update, 1);
  size_t left = hk_sub_relaxed(&named->bytes, bytes) - bytes, soft = hk_load_relaxed(&named->soft_bytes);
  if (is_crossing(soft, bytes, after) && left > soft) note_crossing(named);
}

void hk_named_settle(hk_named_t *named, size_t bytes, size_t after, bool is_granted) {
  if (is_granted) {
    note_rise(named, bytes, after);
  } else {
    cancel(named, bytes, after);
  }
}

bool hk_named_charge(hk_named_t *named, size_t bytes) {
  size_t after;
  if (bytes == 0) return true; /* also above a limit that was lowered */
  if (!hk_named_reserve(named, bytes, &after)) return false;
  note_rise(named, bytes, after);
  return true;
}

void hk_named_uncharge(hk_named_t *named, size_t bytes) {
  hk_count(hk_count_shared_update, 1);
  (void)hk_sub_relaxed(&named->bytes, bytes);
}

/* ---- Larger blocks. In each step of a change, the list can be walked forwards: a child of fork repairs the rest. */

static void push_locked(hk_named_t *named, hk_list_t *node) {
  node->next = named->larger.next;
  node->previous = &named->larger;
  named->is_changing = true;
  hk_keep_store_order();
  named->larger.next->previous = node;
  named->larger.next = node;
  hk_keep_store_order();
  named->is_changing = false;
}

static void unlink_locked(hk_named_t *named, hk_list_t *node) {
  named->is_changing = true;
  hk_keep_store_order();
  node->previous->next = node->next;
  node->next->previous = node->previous;
  hk_keep_store_order();
  named->is_changing = false;
  *node = (hk_list_t){NULL, NULL};
}

static void count_larger(hk_named_t *named, size_t bytes, size_t bytes_before) {
  if (bytes_before == 0) (void)hk_add_relaxed(&named->larger_allocated_count, 1);
  if (bytes > bytes_before) (void)hk_add_relaxed(&named->larger_allocated_bytes, bytes - bytes_before);
  (void)hk_add_relaxed(&named->larger_bytes, bytes);
  (void)hk_add_relaxed(&named->larger_count, 1);
}

void hk_named_add_larger(hk_named_t *named, void *block, size_t charged_bytes, size_t bytes_before) {
  hk_slab_t *slab = hk_slab_of(block);
  size_t bytes = hk_load_relaxed(&slab->bytes);
  (void)hk_add_relaxed(&named->bytes, bytes - charged_bytes);
  count_larger(named, bytes, bytes_before);
  hk_lock_acquire(hk_lock_heap_pool);
  slab->named = named;
  slab->start = (uintptr_t)block;
  push_locked(named, &slab->link);
  hk_lock_release(hk_lock_heap_pool);
}

static void take_out_locked(hk_named_t *named, hk_slab_t *slab) {
  slab->named = NULL;
  unlink_locked(named, &slab->link);
}

static void discount_larger(hk_named_t *named, size_t bytes) {
  (void)hk_sub_relaxed(&named->larger_bytes, bytes);
  (void)hk_sub_relaxed(&named->larger_count, 1);
}

static void uncharge_larger(hk_named_t *named, size_t bytes) {
  discount_larger(named, bytes);
  hk_named_uncharge(named, bytes);
}

void hk_named_add_guarded(hk_named_t *named, size_t bytes) { count_larger(named, bytes, 0); }

void hk_named_remove_guarded(hk_named_t *named, size_t bytes) { uncharge_larger(named, bytes); }

hk_named_t *hk_named_withdraw_larger(hk_slab_t *slab, size_t *bytes) {
  hk_lock_acquire(hk_lock_heap_pool);
  hk_named_t *named = hk_named_is_larger(slab) ? slab->named : NULL;
  if (named != NULL) {
    *bytes = hk_load_relaxed(&slab->bytes);
    take_out_locked(named, slab);
  }
  hk_lock_release(hk_lock_heap_pool);
  if (named != NULL) discount_larger(named, *bytes);
  return named;
}

hk_named_t *hk_named_remove_larger(hk_slab_t *slab) {
  size_t bytes;
  hk_named_t *named = hk_named_withdraw_larger(slab, &bytes);
  if (named != NULL) hk_named_uncharge(named, bytes);
  return named;
}

void *hk_named_take_larger(hk_named_t *named) {
  hk_slab_t *slab = NULL;
  void *block = NULL;
  size_t bytes = 0;
  hk_lock_acquire(hk_lock_heap_pool);
  if (!hk_list_is_empty(&named->larger)) {
    slab = HK_CONTAINER_OF(named->larger.next, hk_slab_t, link);
    bytes = hk_load_relaxed(&slab->bytes);
    block = (void *)slab->start;
    take_out_locked(named, slab);
  }
  hk_lock_release(hk_lock_heap_pool);
  if (block != NULL) uncharge_larger(named, bytes);
  return block;
}

/* ---- Fork. */

static void mend(hk_named_t *named) {
  hk_list_t *node = &named->larger;
  do {
    node->next->previous = node;
    node = node->next;
  } while (node != &named->larger);
  named->is_changing = false;
}

void hk_named_repair(void) {
  for (hk_named_t *named = hk_named_first(); named != NULL; named = named->all_next) {
    if (named->is_changing) mend(named);
  }
}
