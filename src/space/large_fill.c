/* space/large_fill.c - L3. See large_fill.h. A child of fork may find numbers in the middle of a change. They decide
 * which memory is made resident and nothing else. */
#include "space/large_fill.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "os/copy_out.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/ahead.h"
#include "policy/option.h"
#include "policy/thp_policy.h"
#include "space/dirty.h"
#include "space/region_map.h"

/* Guarded by hk_lock_space. */
static struct {
  hk_ahead_t sums;
  uintptr_t open[HK_LARGE_FILL_BLOCKS]; /* starts of open blocks; 0: none. A block that ended is still in it */
  unsigned newest, next;                /* places in `open`: of the last block entered, and of the next look */
} fill;

/* Updates a block and the sums. `ahead_bytes` is 0 for a block that is not open. */
static void set_locked(hk_slab_t *slab, size_t old_bytes, size_t new_bytes, bool is_open, size_t ahead_bytes) {
  if (slab->is_open) fill.sums.unknown_bytes = hk_subtract_to_zero(fill.sums.unknown_bytes, old_bytes);
  fill.sums.ahead_bytes = hk_subtract_to_zero(fill.sums.ahead_bytes, hk_large_fill_ahead_bytes(slab));
  slab->is_open = is_open;
  slab->ahead_slabs = (uint32_t)(hk_align_up(ahead_bytes, HK_SLAB_BYTES) / HK_SLAB_BYTES);
  if (is_open) fill.sums.unknown_bytes += new_bytes;
  fill.sums.ahead_bytes += hk_large_fill_ahead_bytes(slab);
}

static void watch_locked(uintptr_t start) {
  fill.newest = (fill.newest + 1) % HK_LARGE_FILL_BLOCKS;
  fill.open[fill.newest] = start;
  /* The next look is at the block before it: a program that requests a block has often filled the last one. */
  fill.next = (fill.newest + HK_LARGE_FILL_BLOCKS - 1) % HK_LARGE_FILL_BLOCKS;
}

void hk_large_fill_begin_locked(hk_slab_t *slab, uintptr_t start, size_t bytes) {
  hk_ahead_note_block(&fill.sums);
  set_locked(slab, 0, bytes, true, 0);
  watch_locked(start);
}

void hk_large_fill_change_locked(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  size_t ahead_bytes = hk_smaller(hk_large_fill_ahead_bytes(slab), new_bytes);
  if (new_bytes <= old_bytes) {
    set_locked(slab, old_bytes, new_bytes, slab->is_open && new_bytes != 0, ahead_bytes);
    return;
  }
  if (!slab->is_open) watch_locked(start);
  set_locked(slab, old_bytes, new_bytes, true, slab->huge == hk_thp_ask ? new_bytes : ahead_bytes);
}

void hk_large_fill_move_locked(hk_slab_t *slab, size_t old_bytes, hk_slab_t *target, size_t new_bytes) {
  target->born_ms = slab->born_ms;
  set_locked(target, new_bytes, new_bytes, true,
             slab->huge == hk_thp_ask ? new_bytes : hk_large_fill_ahead_bytes(slab));
  set_locked(slab, old_bytes, 0, false, 0);
}

void hk_large_fill_end_locked(hk_slab_t *slab) {
  set_locked(slab, hk_load_relaxed(&slab->bytes), 0, false, 0);
  hk_ahead_note_filled(&fill.sums, hk_dirty_in_use());
}

size_t hk_large_fill_room_locked(unsigned filled) {
  hk_ahead_terms_t terms = {.ns_per_mib_second = hk_option.mode, .in_use_bytes = hk_dirty_in_use(), .filled = filled};
  return hk_ahead_room(&fill.sums, &terms);
}

void hk_large_fill_put_ahead_locked(hk_slab_t *slab, size_t ahead_bytes) {
  size_t bytes = hk_load_relaxed(&slab->bytes);
  set_locked(slab, bytes, bytes, true, ahead_bytes);
}

uintptr_t hk_large_fill_page(uintptr_t part_start, size_t part_bytes, unsigned i) {
  uint64_t place = hk_hash(i + 1) >> 32;
  return part_start + place % (part_bytes / hk_os_page_size()) * hk_os_page_size();
}

/* A block to look at. */
typedef struct {
  uintptr_t start;
  size_t part_bytes; /* 0 after a resize in a shortage of addresses */
  size_t ahead_bytes;
} look_t;

static look_t look_at(uintptr_t start, size_t bytes, size_t ahead_bytes) {
  return (look_t){start, hk_align_down(bytes / HK_THP_PROBES, hk_os_page_size()), ahead_bytes};
}

/* Returns whether the program has written to the chosen page of part `i`. */
static bool is_part_written(const look_t *look, unsigned i) {
  if (look->part_bytes == 0) return false;
  uintptr_t page = hk_large_fill_page(look->start + i * look->part_bytes, look->part_bytes, i);
  if (hk_os_resident_bytes((void *)page, hk_os_page_size()) == 0) return false;
  return page - look->start >= look->ahead_bytes || hk_os_is_written(page);
}

unsigned hk_large_fill_probe(uintptr_t start, size_t bytes, size_t ahead_bytes) {
  look_t look = look_at(start, bytes, ahead_bytes);
  unsigned count = 0;
  for (unsigned i = 0; i < HK_THP_PROBES; i++) count += is_part_written(&look, i);
  return count;
}

/* Begins with the last part: most programs fill a block from its start. */
bool hk_large_fill_is_filled(uintptr_t start, size_t bytes, size_t ahead_bytes) {
  look_t look = look_at(start, bytes, ahead_bytes);
  unsigned left = HK_THP_PROBES;
  while (left > 0 && is_part_written(&look, left - 1)) left--;
  return left == 0;
}

/* Returns the next open block, the newest first, and its place; NULL when there is none. Drops those that are none. */
static hk_slab_t *next_locked(unsigned *place, size_t *bytes) {
  for (unsigned i = 0; i < HK_LARGE_FILL_BLOCKS; i++) {
    *place = fill.next;
    fill.next = (fill.next + HK_LARGE_FILL_BLOCKS - 1) % HK_LARGE_FILL_BLOCKS;
    if (fill.open[*place] == 0) continue;
    hk_slab_t *slab = hk_slab_of((void *)fill.open[*place]);
    *bytes = hk_load_relaxed(&slab->bytes);
    if (hk_slab_state(slab) == hk_slab_large && slab->is_open) return slab;
    fill.open[*place] = 0;
  }
  return NULL;
}

bool hk_large_fill_look(hk_large_filled_t *filled) {
  unsigned place = 0;
  size_t bytes = 0;
  hk_lock_acquire(hk_lock_space);
  hk_slab_t *slab = next_locked(&place, &bytes);
  uintptr_t start = fill.open[place];
  size_t ahead_bytes = slab != NULL ? hk_large_fill_ahead_bytes(slab) : 0;
  hk_lock_release(hk_lock_space);
  if (slab == NULL || !hk_large_fill_is_filled(start, bytes, ahead_bytes)) return false;
  hk_lock_acquire(hk_lock_space);
  /* Meanwhile the block may have ended, and another one may have its addresses; or its pages were made resident ahead
   * of the program. */
  bool is_same = fill.open[place] == start && hk_slab_state(slab) == hk_slab_large && slab->is_open &&
                 hk_load_relaxed(&slab->bytes) == bytes && hk_large_fill_ahead_bytes(slab) == ahead_bytes;
  if (is_same) {
    hk_large_fill_end_locked(slab);
    fill.open[place] = 0;
    *filled = (hk_large_filled_t){bytes, slab->born_ms};
  }
  hk_lock_release(hk_lock_space);
  return is_same;
}
