/* space/guard_slot.c - L3. See guard_slot.h. */
#include "space/guard_slot.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/guard_padding.h"
#include "space/guard_room.h"
#include "space/region_map.h"
#include "space/slab.h"

/* Chosen: slots of one page for each slot of a long block. Long blocks are rarer, and each may take much address
 * space. */
#define LARGE_SHARE 8
/* Chosen: the most bytes of addresses that freed long blocks keep. */
#define LARGE_FREED_MAX HK_GIB

/* The slots of one kind. `order` is a ring of the freed ones, the first to be freed at `head`. hk_lock_guard guards all
 * fields except `slot` and `count`, which are constant; readers of `used` do without it. A change is complete with its
 * last store, so a child of fork finds at worst a slot that is in no list. */
typedef struct {
  hk_guard_record_t *slot;
  uint32_t *order;
  size_t count;
  _Atomic(size_t) used; /* slots from this index on were never taken; readers stop there */
  size_t head, tail;
  size_t freed_bytes; /* of the mappings in `order` */
} kind_t;

static kind_t paged, large;
static uintptr_t range; /* of the slots of one page: guard, slot, guard, slot, ..., guard */
static size_t range_bytes;

/* A bit for each call stack, by its hash: set while the stack's next block is to lie at the start of its pages. So an
 * error that occurs twice with blocks of one stack is tried at both ends. Guarded by hk_lock_guard. */
#define TURN_WORDS 128
static uint64_t *turns; /* in the pool's records */

static _Atomic(bool) is_beginning;
_Atomic(bool) hk_guard_slot_exists;

/* ---- The pool. */

static size_t bytes_of(size_t count) { return count * (sizeof(hk_guard_record_t) + sizeof(uint32_t)); }

static void set_up(kind_t *kind, void *memory, size_t count) {
  kind->slot = memory;
  kind->order = (uint32_t *)((hk_guard_record_t *)memory + count);
  kind->count = count;
}

static bool make_pool(size_t slots) {
  size_t page = hk_os_page_size(), large_slots = slots / LARGE_SHARE + 1;
  size_t paged_bytes = hk_align_up(bytes_of(slots), HK_CACHE_LINE_BYTES);
  size_t record_bytes = hk_align_up(TURN_WORDS * sizeof *turns + paged_bytes + bytes_of(large_slots), page);
  char *records = hk_os_reserve_small(record_bytes, page);
  if (records == NULL) return false;
  range_bytes = (2 * slots + 1) * page;
  range = (uintptr_t)hk_os_reserve_inaccessible(hk_align_up(range_bytes, HK_SLAB_BYTES), HK_SLAB_BYTES);
  if (range == 0) {
    (void)hk_os_unmap(records, record_bytes);
    return false;
  }
  turns = (uint64_t *)(void *)records;
  set_up(&paged, records + TURN_WORDS * sizeof *turns, slots);
  set_up(&large, records + TURN_WORDS * sizeof *turns + paged_bytes, large_slots);
  return true;
}

bool hk_guard_slot_begin(size_t slots) {
  bool expected = false;
  if (hk_guard_slot_has_pool()) return true;
  if (!hk_compare_exchange_acquire(&is_beginning, &expected, true)) return false;
  bool made = hk_guard_slot_has_pool() || make_pool(slots); /* another thread may have made it since the first look */
  if (made) hk_store_release(&hk_guard_slot_exists, true);
  hk_store_release(&is_beginning, false);
  return made;
}

/* ---- The order of the freed slots. */

/* Takes the slot that was freed first. Returns NULL when none is in the order. */
static hk_guard_record_t *take_freed_locked(kind_t *kind) {
  if (kind->head == kind->tail) return NULL;
  hk_guard_record_t *slot = &kind->slot[kind->order[kind->head % kind->count]];
  kind->freed_bytes -= hk_load_relaxed(&slot->mapping_bytes);
  kind->head++;
  return slot;
}

/* Takes an unused slot, or else the one that was freed first. Returns NULL when all are live. */
static hk_guard_record_t *take_locked(kind_t *kind) {
  size_t used = hk_load_relaxed(&kind->used);
  if (used < kind->count) {
    hk_store_relaxed(&kind->used, used + 1);
    return &kind->slot[used];
  }
  return take_freed_locked(kind);
}

/* Puts a slot behind all freed ones: it is used again after them. */
static void put_last_locked(kind_t *kind, hk_guard_record_t *slot) {
  kind->order[kind->tail % kind->count] = (uint32_t)(slot - kind->slot);
  kind->freed_bytes += hk_load_relaxed(&slot->mapping_bytes);
  kind->tail++;
}

/* Returns whether the next block of the stack is to lie at the start of its pages, and turns the bit over. */
static bool take_turn_locked(const struct hk_site *site) {
  unsigned hash = (unsigned)(hk_hash((uintptr_t)site) >> 32);
  uint64_t *word = &turns[hash / 64 % TURN_WORDS], bit = UINT64_C(1) << (hash % 64);
  bool is_at_start = (*word & bit) != 0;
  *word ^= bit;
  return is_at_start;
}

/* Takes a slot for a block of the stack, and makes it busy. Returns NULL when all are live. */
static hk_guard_record_t *take_slot(kind_t *kind, const struct hk_site *site, bool *is_at_start) {
  hk_lock_acquire(hk_lock_guard);
  hk_guard_record_t *slot = take_locked(kind);
  if (slot != NULL) *is_at_start = take_turn_locked(site);
  hk_lock_release(hk_lock_guard);
  if (slot != NULL) hk_store_relaxed(&slot->state, (uint8_t)hk_guard_busy);
  return slot;
}

static void put_last(kind_t *kind, hk_guard_record_t *slot) {
  hk_lock_acquire(hk_lock_guard);
  put_last_locked(kind, slot);
  hk_lock_release(hk_lock_guard);
}

/* ---- Slots of one page. */

static uintptr_t page_of(const hk_guard_record_t *slot) {
  return range + (2 * (uintptr_t)(slot - paged.slot) + 1) * hk_os_page_size();
}

static void *alloc_paged(size_t bytes, size_t alignment, const hk_guard_deed_t *deed, struct hk_named *named) {
  size_t page = hk_os_page_size();
  bool is_at_start = false;
  hk_guard_record_t *slot = take_slot(&paged, deed->site, &is_at_start);
  if (slot == NULL) return NULL;
  uintptr_t pages = page_of(slot);
  /* The neighbours' guard pages are this slot's too. */
  if (hk_load_relaxed(&slot->is_opened)) {
    (void)hk_os_purge_and_forbid((void *)(pages - page), 3 * page);
    hk_store_relaxed(&slot->is_opened, false);
  }
  size_t room = hk_align_up(bytes > 0 ? bytes : 1, alignment);
  hk_guard_view_t view = {.start = is_at_start ? pages : pages + page - room,
                          .bytes = bytes,
                          .named = named,
                          .pages = pages,
                          .pages_bytes = page,
                          .allocated = *deed};
  if (!hk_os_allow_writes((void *)pages, page)) {
    hk_guard_record_write_unused(slot);
    put_last(&paged, slot);
    return NULL;
  }
  hk_guard_padding_fill(pages, view.pages_bytes, view.start, bytes);
  hk_guard_record_write_allocated(slot, &view, pages - page, 3 * page);
  return (void *)view.start;
}

/* ---- Slots with a mapping of their own. It has whole slabs of addresses. */

static void drop_mapping(hk_guard_record_t *slot) {
  uintptr_t mapping = hk_load_relaxed(&slot->mapping);
  if (mapping == 0) return;
  hk_guard_record_write_unmapped(slot);
  (void)hk_os_unmap((void *)mapping, hk_load_relaxed(&slot->mapping_bytes));
  hk_store_release(&slot->mapping_bytes, 0);
  hk_store_relaxed(&slot->is_opened, false);
}

/* Drops mappings of freed long blocks, the first to be freed first, until at most `most` bytes of addresses are
 * left. */
static void drop_mappings_above(size_t most) {
  for (;;) {
    hk_lock_acquire(hk_lock_guard);
    hk_guard_record_t *slot = large.freed_bytes > most ? take_freed_locked(&large) : NULL;
    hk_lock_release(hk_lock_guard);
    if (slot == NULL) return;
    drop_mapping(slot);
    put_last(&large, slot);
  }
}

/* Returns the slot in whose mapping the address lies; NULL when there is none. */
static hk_guard_record_t *large_at(uintptr_t address) {
  size_t used = hk_load_relaxed(&large.used);
  for (size_t i = 0; i < used; i++) {
    if (hk_guard_record_has(&large.slot[i], address)) return &large.slot[i];
  }
  return NULL;
}

static bool is_in_large_block(uintptr_t address) {
  uintptr_t start;
  hk_slab_t *slab = hk_region_map_find_below(address, &start);
  return slab != NULL && hk_slab_state(slab) == hk_slab_large;
}

/* Returns whether no slab and no slot has these addresses. In a child of fork, whose generation is not the first, the
 * system may map where the program's MADV_DONTFORK has left a hole in a block, which the child may still free. */
static bool are_free_addresses(uintptr_t start, size_t bytes) {
  if (HK_LIKELY(hk_lock_generation() == 1)) return true;
  for (uintptr_t at = start; at - start < bytes; at += HK_SLAB_BYTES) {
    if (hk_slab_state(hk_slab_of_any(at)) != hk_slab_none || large_at(at) != NULL) return false;
  }
  return !is_in_large_block(start);
}

static void *alloc_large(size_t bytes, size_t alignment, const hk_guard_deed_t *deed, struct hk_named *named) {
  size_t page = hk_os_page_size();
  bool is_at_start = false;
  hk_guard_record_t *slot = take_slot(&large, deed->site, &is_at_start);
  if (slot == NULL) return NULL;
  drop_mapping(slot);
  size_t slack = alignment > page ? alignment : 0;
  size_t room = bytes > 0 ? bytes : 1, pages_bytes = hk_align_up(room, page);
  size_t mapping_bytes = hk_align_up(pages_bytes + slack + 2 * page, HK_SLAB_BYTES);
  uintptr_t mapping = (uintptr_t)hk_os_reserve_inaccessible(mapping_bytes, HK_SLAB_BYTES);
  uintptr_t pages = hk_align_up(mapping + page, alignment > page ? alignment : page);
  bool is_usable = mapping != 0 && are_free_addresses(mapping, mapping_bytes);
  if (!is_usable || !hk_os_allow_writes((void *)pages, pages_bytes)) {
    if (mapping != 0) (void)hk_os_unmap((void *)mapping, mapping_bytes);
    hk_guard_record_write_unused(slot);
    put_last(&large, slot);
    return NULL;
  }
  uintptr_t at_end = pages + pages_bytes - hk_align_up(room, alignment < page ? alignment : page);
  hk_guard_view_t view = {.start = is_at_start ? pages : at_end,
                          .bytes = bytes,
                          .named = named,
                          .pages = pages,
                          .pages_bytes = pages_bytes,
                          .allocated = *deed};
  hk_guard_padding_fill(pages, view.pages_bytes, view.start, bytes);
  hk_guard_record_write_allocated(slot, &view, mapping, mapping_bytes);
  return (void *)view.start;
}

void *hk_guard_slot_alloc(size_t bytes, size_t alignment, const hk_guard_deed_t *deed, struct hk_named *named) {
  if (!hk_guard_slot_has_pool() || bytes > LARGE_FREED_MAX || alignment > LARGE_FREED_MAX) return NULL;
  if (!hk_guard_room_take(deed->ms)) return NULL;
  if (alignment < HK_BLOCK_ALIGNMENT) alignment = HK_BLOCK_ALIGNMENT;
  size_t page = hk_os_page_size();
  void *block = bytes <= page && alignment <= page ? alloc_paged(bytes, alignment, deed, named)
                                                   : alloc_large(bytes, alignment, deed, named);
  if (block == NULL) hk_guard_room_give();
  return block;
}

/* ---- Look-up. */

/* Returns the slot of one page whose page, or whose guard pages' nearer half, has the address. */
static hk_guard_record_t *paged_at(uintptr_t address) {
  size_t page = hk_os_page_size(), index = (address - range) / page;
  if (index % 2 != 0) return &paged.slot[index / 2];
  bool is_upper_half = (address - range) % page >= page / 2;
  size_t slot = is_upper_half ? index / 2 : index / 2 - 1;
  if (index == 0) slot = 0;
  return &paged.slot[slot < paged.count ? slot : paged.count - 1];
}

static hk_guard_record_t *slot_at(uintptr_t address) {
  if (!hk_guard_slot_has_pool()) return NULL;
  return address - range < range_bytes ? paged_at(address) : large_at(address);
}

static size_t distance_to(const hk_guard_view_t *view, uintptr_t address) {
  if (address < view->start) return view->start - address;
  return address >= view->start + view->bytes ? address - (view->start + view->bytes) : 0;
}

/* Returns whether the address lies in a guard page of the range. */
static bool is_guard_page(uintptr_t address) {
  return address - range < range_bytes && (address - range) / hk_os_page_size() % 2 == 0;
}

/* Reads the last slot of one page that was used: its block is the nearest one to a slot that never was. */
static bool read_last(hk_guard_view_t *view) {
  size_t used = hk_load_relaxed(&paged.used);
  return used > 0 && hk_guard_record_read(&paged.slot[used - 1], view);
}

/* For a guard page between two slots, compares the distances to both blocks: a block may lie at the far end of its
 * page. */
bool hk_guard_slot_find(uintptr_t address, hk_guard_view_t *view) {
  hk_guard_record_t *slot = slot_at(address);
  if (slot == NULL) return false;
  bool is_found = hk_guard_record_read(slot, view);
  bool is_unused = address - range < range_bytes && (size_t)(slot - paged.slot) >= hk_load_relaxed(&paged.used);
  if (!is_found && is_unused) is_found = read_last(view);
  if (!is_guard_page(address)) return is_found;
  size_t below = (address - range) / hk_os_page_size() / 2;
  for (size_t i = below == 0 ? 0 : below - 1; i <= below && i < paged.count; i++) {
    hk_guard_view_t other;
    if (&paged.slot[i] == slot || !hk_guard_record_read(&paged.slot[i], &other)) continue;
    if (!is_found || distance_to(&other, address) < distance_to(view, address)) *view = other;
    is_found = true;
  }
  return is_found;
}

/* ---- Free. */

hk_guard_free_t hk_guard_slot_free(uintptr_t address, const hk_guard_deed_t *deed, hk_guard_view_t *view,
                                   uintptr_t *damage) {
  hk_guard_record_t *slot = slot_at(address);
  uint8_t expected = hk_guard_live;
  if (slot == NULL || hk_load_acquire(&slot->start) != address) return hk_guard_free_refused;
  if (!hk_compare_exchange_acquire(&slot->state, &expected, (uint8_t)hk_guard_busy)) return hk_guard_free_refused;
  hk_guard_record_copy(slot, view);
  view->state = hk_guard_live;
  if (view->start != address) { /* the slot has another block since the first look */
    hk_store_release(&slot->state, (uint8_t)hk_guard_live);
    return hk_guard_free_refused;
  }
  *damage = hk_guard_padding_damage(view->pages, view->pages_bytes, view->start, view->bytes);
  bool is_closed = hk_os_purge_and_forbid((void *)view->pages, view->pages_bytes);
  hk_guard_record_write_freed(slot, deed);
  kind_t *kind = address - range < range_bytes ? &paged : &large;
  if (is_closed) {
    put_last(kind, slot);
    hk_guard_room_give();
  } else { /* the slot is given up: the address stays known as free, and its pages go */
    (void)hk_os_purge((void *)view->pages, view->pages_bytes);
  }
  if (kind == &large) drop_mappings_above(LARGE_FREED_MAX);
  return *damage != 0 ? hk_guard_free_damaged : hk_guard_free_done;
}

void hk_guard_slot_drop_addresses(void) {
  if (hk_guard_slot_has_pool()) drop_mappings_above(0);
}

/* A guard page is closed again by the next block of either slot beside it. */
static void note_opened(uintptr_t address, hk_guard_record_t *slot) {
  hk_store_relaxed(&slot->is_opened, true);
  if (!is_guard_page(address)) return;
  size_t above = (address - range) / hk_os_page_size() / 2;
  if (above < paged.count) hk_store_relaxed(&paged.slot[above].is_opened, true);
  if (above > 0) hk_store_relaxed(&paged.slot[above - 1].is_opened, true);
}

bool hk_guard_slot_open_page(uintptr_t address) {
  hk_guard_record_t *slot = slot_at(address);
  size_t page = hk_os_page_size();
  if (slot == NULL) return false;
  uintptr_t start = hk_align_down(address, page);
  uintptr_t pages = hk_load_acquire(&slot->pages);
  bool is_block = hk_load_acquire(&slot->state) == hk_guard_live && start - pages < hk_load_acquire(&slot->pages_bytes);
  note_opened(address, slot);
  return is_block || hk_os_allow_writes((void *)start, page);
}

/* ---- All slots. */

static void add_usage(kind_t *kind, hk_guard_usage_t *usage, uint64_t now_ms) {
  size_t used = hk_load_relaxed(&kind->used);
  for (size_t i = 0; i < used; i++) {
    hk_guard_view_t view;
    if (!hk_guard_record_read(&kind->slot[i], &view)) continue;
    if (view.state == hk_guard_live) {
      usage->live++;
      usage->live_bytes += view.pages_bytes;
    } else {
      usage->freed++;
      usage->age_ms = hk_larger(usage->age_ms, hk_subtract_to_zero(now_ms, view.freed.ms));
    }
  }
}

hk_guard_usage_t hk_guard_slot_usage(uint64_t now_ms) {
  hk_guard_usage_t usage = {.slots = 0};
  if (!hk_guard_slot_has_pool()) return usage;
  usage.slots = paged.count;
  usage.large_slots = large.count;
  add_usage(&paged, &usage, now_ms);
  add_usage(&large, &usage, now_ms);
  return usage;
}

static void visit_kind(kind_t *kind, void (*visit)(const hk_guard_view_t *view, void *context), void *context) {
  size_t used = hk_load_relaxed(&kind->used);
  for (size_t i = 0; i < used; i++) {
    hk_guard_view_t view;
    if (hk_guard_record_read(&kind->slot[i], &view) && view.state == hk_guard_live) visit(&view, context);
  }
}

void hk_guard_slot_visit(void (*visit)(const hk_guard_view_t *view, void *context), void *context) {
  if (!hk_guard_slot_has_pool()) return;
  visit_kind(&paged, visit, context);
  visit_kind(&large, visit, context);
}
