/* space/large_prefault.c - L3. See large_prefault.h. A child of fork may find numbers in the middle of a change. They
 * decide which memory is made resident and nothing else. */
#include "space/large_prefault.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/prefault_policy.h"
#include "policy/stat.h"
#include "space/dirty.h"
#include "space/large_fill.h"
#include "space/timed_call.h"

/* Chosen: bytes made resident in one call. For about 1 ms no other thread can change the program's mappings then. */
#define PART_BYTES (4 * HK_MIB)

/* Chosen: a look at 256 pages takes a quarter longer than one at a page. */
#define LOOK_BYTES HK_MIB

_Atomic(uintptr_t) hk_large_prefault_sample;

/* Guarded by hk_lock_space. */
static struct {
  hk_prefault_policy_t sizes;
  size_t sample_bytes;
  size_t runs_ahead_bytes; /* prefaulted runs since the last sample */
  unsigned blocks;         /* that were made since the sample */
} prefault_state;

/* Returns whether the whole range is resident. Looks at the end first, which programs mostly write last. */
static bool is_resident(uintptr_t start, size_t bytes) {
  while (bytes > 0) {
    size_t part_bytes = hk_smaller(bytes, LOOK_BYTES);
    bytes -= part_bytes;
    if (hk_os_resident_bytes((void *)(start + bytes), part_bytes) < part_bytes) return false;
  }
  return true;
}

/* Returns whether the sample is to be looked at. A program has mostly filled a block when it requests the next one, or
 * does not fill it for long. So the looks are ever further apart: each is a system call in a request. */
static bool is_look_due(unsigned blocks) { return (blocks & (blocks - 1)) == 0; }

/* Examines the sample. Releases the lock meanwhile: the owner may free the block, and another block may get its
 * addresses. Then the verdict is about that block. */
static void look_locked(bool is_end) {
  uintptr_t start = hk_load_relaxed(&hk_large_prefault_sample);
  size_t bytes = prefault_state.sample_bytes;
  if (start == 0 || (!is_end && !is_look_due(++prefault_state.blocks))) return;
  hk_lock_release(hk_lock_space);
  bool is_filled = is_resident(start, bytes);
  hk_lock_acquire(hk_lock_space);
  if (hk_load_relaxed(&hk_large_prefault_sample) != start || prefault_state.sample_bytes != bytes) return;
  if (!is_filled && !is_end && prefault_state.blocks < HK_LARGE_PREFAULT_BLOCKS) return;
  hk_prefault_policy_note(&prefault_state.sizes, bytes, is_filled);
  prefault_state.runs_ahead_bytes = 0;
  hk_store_relaxed(&hk_large_prefault_sample, 0);
}

/* Notes that a block is about to be ahead of the program. Returns whether it may be. */
static bool put_ahead_locked(hk_slab_t *slab, size_t bytes) {
  /* A sample is of the block's own size, and each of its pages was looked at: it tells twice as much. */
  size_t room = hk_large_fill_room_locked(2 * hk_prefault_policy_filled(&prefault_state.sizes, bytes));
  if (bytes > room || (slab == NULL && prefault_state.runs_ahead_bytes + bytes > room)) return false;
  if (slab == NULL) {
    prefault_state.runs_ahead_bytes += bytes;
  } else {
    hk_large_fill_put_ahead_locked(slab, bytes);
  }
  return true;
}

static hk_prefault_advice_t find_advice_locked(hk_slab_t *slab, uintptr_t start, size_t bytes) {
  hk_prefault_advice_t advice = hk_prefault_policy_advise(&prefault_state.sizes, bytes, hk_dirty_limit_bytes_locked());
  if (advice == hk_prefault_whole && !put_ahead_locked(slab, bytes)) advice = hk_prefault_sample;
  if (advice != hk_prefault_sample || hk_load_relaxed(&hk_large_prefault_sample) != 0) return advice;
  prefault_state.sample_bytes = bytes;
  prefault_state.blocks = 0;
  hk_store_relaxed(&hk_large_prefault_sample, start);
  return advice;
}

/* Returns the bytes that were made resident. */
static size_t prefault(uintptr_t start, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    size_t part_bytes = hk_smaller(bytes - done, PART_BYTES);
    if (!hk_timed_call_prefault((void *)(start + done), part_bytes)) break;
    done += part_bytes;
  }
  return done;
}

void hk_large_prefault_note_new(hk_slab_t *slab, uintptr_t start, size_t bytes) {
  if (bytes > HK_PREFAULT_MAX_BYTES) return;
  bytes = hk_align_up(bytes, hk_os_page_size());
  hk_lock_acquire(hk_lock_space);
  look_locked(false);
  hk_prefault_advice_t advice = find_advice_locked(slab, start, bytes);
  hk_lock_release(hk_lock_space);
  if (advice == hk_prefault_whole) hk_stat_add(hk_stat_prefault, prefault(start, bytes));
}

void hk_large_prefault_end_sample(uintptr_t start) {
  hk_lock_acquire(hk_lock_space);
  if (hk_load_relaxed(&hk_large_prefault_sample) == start) look_locked(true);
  hk_lock_release(hk_lock_space);
}
