/* api/guarded.c - L5. See guarded.h. */
#include "api/guarded.h"

#include <errno.h>

#include "api/instruments.h"
#include "api/sample_hook.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "heap/detach.h"
#include "heap/part.h"
#include "os/fault_signal.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/sampling.h"
#include "policy/stat.h"

static hk_guard_deed_t own_deed(hk_site_t *site) {
  return (hk_guard_deed_t){.site = site, .thread = hk_os_thread_self().number, .ms = hk_os_coarse_ms()};
}

/* ---- Errors. */

/* Reports the error, and ends the program if `on_misuse` says so, unless a signal ends it. */
static void tell(const hk_guard_event_t *event, bool ends_by_signal) {
  if (hk_guard_report(event, hk_option.on_misuse == hk_misuse_ignore)) {
    hk_stat_add(hk_stat_guard_found, 1);
    hk_stat_add(hk_stat_misuse, 1);
  }
  if (hk_option.on_misuse == hk_misuse_abort && !ends_by_signal) hk_os_abort();
}

/* The places that have been reported; 0: none yet. Once the table is full, no other place is reported. */
#define PLACES_SHIFT 10
#define PLACES (1u << PLACES_SHIFT)
static _Atomic(uint64_t) reported[PLACES];

bool hk_guarded_note_place(uint64_t place) {
  if (hk_option.on_misuse == hk_misuse_abort) return true;
  if (place == 0) place = 1;
  uint64_t first = hk_hash(place) >> (64 - PLACES_SHIFT);
  for (unsigned i = 0; i < PLACES; i++) {
    uint64_t found = 0;
    if (hk_compare_exchange_acquire(&reported[(first + i) % PLACES], &found, place)) return true;
    if (found == place) return false;
  }
  return false;
}

static bool is_of_slot(uintptr_t address) {
  hk_guard_view_t view;
  return hk_guard_slot_find(address, &view);
}

static bool handle_fault(const hk_crash_t *crash) {
  hk_guard_event_t event = {.by = hk_guard_by_access, .address = crash->address, .crash = crash};
  bool goes_on = hk_option.on_misuse != hk_misuse_abort;
  if (!hk_guard_slot_find(crash->address, &event.block)) return false;
  event.deed = (hk_guard_deed_t){.thread = crash->thread, .ms = hk_os_coarse_ms()};
  tell(&event, true);
  return goes_on && hk_guard_slot_open_page(crash->address);
}

bool hk_guarded_misuse(hk_guard_noticed_t by, uintptr_t address) {
  hk_guard_event_t event = {.by = by, .address = address};
  if (!hk_guard_slot_find(address, &event.block)) return false;
  event.deed = own_deed(hk_sample_hook_site());
  tell(&event, false);
  return true;
}

/* ---- On and off. */

static const hk_fault_hook_t hook = {.has = is_of_slot, .handle = handle_fault};

hk_guard_start_t hk_guarded_start(uint64_t rate) {
  if (!hk_guard_slot_begin(hk_option.guard_slots)) return hk_guard_no_memory;
  if (!hk_fault_signal_catch(&hook)) return hk_guard_no_handler;
  hk_sampling_set_guard_rate(rate);
  hk_detach_loosen_all(); /* a thread that allocates and frees the same blocks would not notice */
  return hk_guard_on;
}

void hk_guarded_stop(void) { hk_sampling_set_guard_rate(0); }

uint64_t hk_guarded_rate(void) { return hk_load_relaxed(&hk_sampling_guard_rate); }

/* ---- Blocks. */

/* Returns the bytes that a named heap or tag is charged for a block: those of its pages. */
static size_t charge_of(size_t bytes) { return hk_align_up(bytes > 0 ? bytes : 1, hk_os_page_size()); }

void *hk_guarded_alloc(size_t size, size_t alignment, size_t block_bytes, const hk_sample_choice_t *choice) {
  int saved_errno = errno;
  hk_guard_deed_t deed = own_deed(hk_sample_hook_site());
  hk_named_t *named = hk_part_current();
  size_t charged = 0;
  if (named != NULL && !hk_named_reserve(named, charge_of(size), &charged)) return NULL;
  void *block = hk_guard_slot_alloc(size, alignment, &deed, named);
  if (named != NULL) hk_named_settle(named, charge_of(size), charged, block != NULL);
  if (block == NULL) {
    hk_stat_add(hk_stat_guard_missed, 1);
    return NULL;
  }
  if (named != NULL) hk_named_add_guarded(named, charge_of(size));
  hk_stat_add(hk_stat_guarded, 1);
  hk_fault_signal_renew();
  if (choice->weight_q16 != 0) (void)hk_sample_hook_note((uintptr_t)block, 0, size, block_bytes, choice->weight_q16);
  errno = saved_errno;
  return block;
}

static hk_guard_free_t free_slot(uintptr_t address, hk_guard_event_t *event) {
  hk_guard_free_t outcome = hk_guard_slot_free(address, &event->deed, &event->block, &event->address);
  hk_named_t *named = outcome != hk_guard_free_refused ? event->block.named : NULL;
  if (named != NULL) hk_named_remove_guarded(named, charge_of(event->block.bytes));
  return outcome;
}

void hk_guarded_free(uintptr_t address) {
  int saved_errno = errno;
  hk_guard_event_t event = {.by = hk_guard_by_padding};
  event.deed = own_deed(hk_sample_hook_site());
  switch (free_slot(address, &event)) {
    case hk_guard_free_done:
      break;
    case hk_guard_free_damaged:
      tell(&event, false);
      break;
    case hk_guard_free_refused:
      (void)hk_guarded_misuse(hk_guard_by_free, address);
      break;
  }
  errno = saved_errno;
}

typedef struct {
  const hk_named_t *named;
  uint64_t blocks;
  uint64_t bytes;
} named_walk_t;

/* In a child of fork a vanished thread may have been about to free the block: then nothing is left to do. */
static void free_if_named(const hk_guard_view_t *view, void *context) {
  named_walk_t *walk = context;
  if (view->named != walk->named) return;
  (void)hk_sample_hook_forget(view->start, true);
  hk_guard_event_t event = {.by = hk_guard_by_padding};
  event.deed = own_deed(hk_sample_hook_site());
  hk_guard_free_t outcome = free_slot(view->start, &event);
  if (outcome == hk_guard_free_refused) return;
  if (outcome == hk_guard_free_damaged) tell(&event, false);
  walk->blocks++;
  walk->bytes += view->bytes;
}

uint64_t hk_guarded_free_named(const hk_named_t *named, uint64_t *bytes) {
  named_walk_t walk = {.named = named};
  if (hk_guard_slot_has_pool()) hk_guard_slot_visit(free_if_named, &walk);
  *bytes = walk.bytes;
  return walk.blocks;
}
