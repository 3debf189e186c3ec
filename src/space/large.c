/* space/large.c - L3. See large.h.
 *
 * Only the first 64 KiB of a large block have a descriptor that says so. A block is a whole number of slabs, so no two
 * blocks share a descriptor, and each has a little room to grow; pages that are not touched cost no memory.
 *
 * A freed block becomes a free extent (space/extent.h), of which later blocks are made. So a block's addresses may be
 * part of a mapping, or of several. The system can unmap them all the same, but it resizes and moves only one mapping
 * at a time.
 *
 * A hardened build has such blocks only where there are very many, or the system refuses a mapping between guards.
 *
 * In a shortage a block is whole pages. Unless it is also whole slabs, it is a mapping of its own, and becomes no free
 * extent.
 */
#include "space/large.h"

#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/stat.h"
#include "policy/thp_policy.h"
#include "space/dirty.h"
#include "space/extent.h"
#include "space/huge.h"
#include "space/large_fill.h"
#include "space/large_prefault.h"
#include "space/lone_mapping.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/shortage.h"
#include "space/superslab.h"

/* Chosen: from this size on, a block that is not known to be zero is purged instead of overwritten. Overwriting is many
 * times cheaper than faulting all pages in again. But it makes the whole block resident, and a program that requests
 * that many bytes may never touch them. */
#define CLEAR_BY_PURGE_BYTES (32 * HK_MIB)

/* Written under hk_lock_space, read without it. */
static _Atomic(size_t) block_count;

/* Returns the usable bytes of a block that is whole slabs; 0 when that exceeds PTRDIFF_MAX. */
static size_t whole_slabs(size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX - HK_SLAB_BYTES) return 0;
  return hk_align_up(bytes, HK_SLAB_BYTES);
}

size_t hk_large_good_size(size_t bytes) {
  size_t whole_bytes = whole_slabs(bytes);
  return HK_HARDENED && whole_bytes != 0 ? hk_align_up(bytes, hk_os_page_size()) : whole_bytes;
}

/* A block that can fill a huge page starts at a multiple of 2 MiB, where one is free. */
static size_t preferred_alignment(size_t bytes) {
  return bytes >= HK_SUPERSLAB_BYTES ? HK_SUPERSLAB_BYTES : HK_SLAB_BYTES;
}

static void count_locked(size_t count, size_t bytes) {
  hk_bump_relaxed(&block_count, count);
  hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, bytes);
}

static void describe_locked(uintptr_t start, size_t bytes, bool is_lone, bool is_zero, uint64_t now_ms) {
  hk_slab_t *slab = hk_slab_of((void *)start);
  if (HK_HARDENED) {
    slab->is_lone = is_lone;
    slab->is_unshrunk = false;
  }
  slab->superslab = NULL;
  slab->named = NULL;
  slab->huge = hk_thp_leave;
  slab->is_open = false;
  slab->ahead_slabs = 0;
  slab->born_ms = (uint32_t)now_ms; /* here: hk_large_fill_look reads it */
  if (is_zero) hk_large_fill_begin_locked(slab, start, bytes);
  hk_store_relaxed(&slab->bytes, bytes);
  hk_slab_set_state(slab, hk_slab_large);
  count_locked(1, bytes);
}

/* ---- Allocation. */

static void *take_free(size_t bytes, size_t alignment, bool *is_zero) {
  hk_extent_t extent;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  bool found = hk_extent_take_locked(bytes, alignment, preferred_alignment(bytes), &extent);
  if (found) {
    if (extent.is_zero) hk_dirty_note_touched_locked(&hk_dirty_extents, bytes);
    describe_locked(extent.start, bytes, false, extent.is_zero, now_ms);
  }
  hk_purge_end_change(now_ms);
  if (!found) return NULL;
  hk_stat_add(hk_stat_large_reuse, 1);
  *is_zero = extent.is_zero;
  return (void *)extent.start;
}

/* Enters the descriptors of the whole block: later a part of it may begin or end at any slab. */
static bool enter(uintptr_t start, size_t bytes) {
  uintptr_t first = hk_align_down(start, HK_SLAB_BYTES);
  return hk_region_map_enter((void *)first, hk_align_up(start + bytes, HK_SLAB_BYTES) - first);
}

/* Where the system refuses, the addresses are lost. */
static void unmap(void *block, size_t bytes) {
  if (!hk_os_unmap(block, bytes)) (void)hk_os_purge(block, bytes);
}

/* Maps a new block. With `is_lone`, in a hardened build, it is a mapping of its own between guards. */
static void *map_new(size_t bytes, size_t alignment, bool is_lone, bool *is_zero) {
  size_t preferred = preferred_alignment(bytes);
  if (alignment < preferred) alignment = preferred;
  void *block = HK_HARDENED && is_lone ? hk_lone_mapping_make(bytes, alignment) : hk_os_reserve(bytes, alignment);
  if (block == NULL) return NULL;
  if (!enter((uintptr_t)block, bytes)) {
    if (HK_HARDENED && is_lone) {
      hk_lone_mapping_drop(block, bytes);
    } else {
      unmap(block, bytes);
    }
    return NULL;
  }
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_touched_locked(&hk_dirty_extents, bytes);
  describe_locked((uintptr_t)block, bytes, is_lone, true, now_ms);
  hk_purge_end_change(now_ms);
  *is_zero = true;
  return block;
}

/* Returns whether a block of `bytes` is a mapping of whole pages. A block of whole slabs is one only in a hardened
 * build. */
static bool is_whole_pages(const hk_slab_t *slab, size_t bytes) {
  return HK_HARDENED ? slab->is_lone : bytes % HK_SLAB_BYTES != 0;
}

void *hk_large_alloc_pages(size_t bytes, size_t alignment, bool *is_zero) {
  if (bytes > (size_t)PTRDIFF_MAX - HK_SLAB_BYTES) return NULL;
  if (hk_load_relaxed(&block_count) >= HK_SHORTAGE_MAPPINGS_MAX) return NULL; /* counts large blocks of any kind */
  size_t block_bytes = hk_align_up(bytes > 0 ? bytes : 1, hk_os_page_size());
  return map_new(block_bytes, alignment > HK_SLAB_BYTES ? alignment : HK_SLAB_BYTES, HK_HARDENED, is_zero);
}

/* Leaves a block to the program if it becomes huge pages, or is a sample for them. Otherwise it may be prefaulted. */
static void note_fresh(void *block, size_t bytes, size_t block_bytes, bool is_new) {
  hk_slab_t *slab = hk_slab_of(block);
  hk_huge_note_new_block(slab, (uintptr_t)block, block_bytes, is_new);
  if (slab->huge == hk_thp_leave || slab->huge == hk_thp_forbid)
    hk_large_prefault_note_new(slab, (uintptr_t)block, bytes);
}

void *hk_large_alloc(size_t bytes, size_t alignment, bool *is_zero) {
  size_t block_bytes = whole_slabs(bytes);
  if (block_bytes == 0) return NULL;
  if (alignment < HK_SLAB_BYTES) alignment = HK_SLAB_BYTES;
  void *block = hk_shortage_is_on() ? hk_large_alloc_pages(bytes, alignment, is_zero) : NULL;
  if (block != NULL) return block;
  block = take_free(block_bytes, alignment, is_zero);
  if (block == NULL && hk_superslab_dissolve_free(block_bytes)) block = take_free(block_bytes, alignment, is_zero);
  bool is_new = block == NULL;
  if (is_new) block = map_new(block_bytes, alignment, false, is_zero);
  if (block != NULL && *is_zero) note_fresh(block, bytes, block_bytes, is_new);
  return block;
}

void hk_large_clear(void *block, size_t bytes) {
  size_t whole_bytes = hk_align_down(bytes, hk_os_page_size());
  bool is_purged = bytes >= CLEAR_BY_PURGE_BYTES && hk_os_purge(block, whole_bytes);
  size_t done = is_purged ? whole_bytes : 0;
  memset((char *)block + done, 0, bytes - done);
}

/* ---- Free. */

/* Makes an extent of a block that ended, or of the part beyond `new_bytes` that a block gave up. `count` is added to
 * the number of blocks. */
static void give_up(hk_slab_t *slab, size_t count, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  size_t bytes = old_bytes - new_bytes;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  if (new_bytes != 0) hk_store_relaxed(&slab->bytes, new_bytes); /* here: hk_large_fill_look takes them off the sums */
  count_locked(count, -bytes);
  hk_large_fill_change_locked(slab, start, old_bytes, new_bytes);
  hk_extent_put_locked((hk_extent_t){.start = start + new_bytes, .bytes = bytes, .is_zero = false});
  hk_purge_end_change(now_ms);
}

/* Unmaps a block of whole pages. At a mapping's end the system does not refuse that. */
static void unmap_pages(hk_slab_t *slab, void *block, size_t bytes) {
  if (!HK_HARDENED) hk_slab_set_state(slab, hk_slab_none); /* before other threads can map these addresses */
  hk_lock_acquire(hk_lock_space);
  hk_large_fill_change_locked(slab, (uintptr_t)block, bytes, 0);
  hk_lock_release(hk_lock_space);
  if (HK_HARDENED) {
    hk_lone_mapping_end(block, bytes);
  } else {
    unmap(block, bytes);
  }
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  count_locked((size_t)-1, -bytes);
  hk_purge_end_change(now_ms);
}

bool hk_large_free(hk_slab_t *slab, void *block) {
  size_t bytes = hk_load_relaxed(&slab->bytes);
  uint8_t expected = hk_slab_large;
  if (!hk_compare_exchange_acquire(&slab->state, &expected, (uint8_t)hk_slab_free)) return false;
  if (HK_UNLIKELY(is_whole_pages(slab, bytes))) {
    unmap_pages(slab, block, bytes);
    return true;
  }
  hk_huge_note_end_of_block(slab, (uintptr_t)block, bytes);
  hk_large_prefault_note_end((uintptr_t)block);
  give_up(slab, (size_t)-1, (uintptr_t)block, bytes, 0);
  return true;
}

/* ---- Resize. */

static void set_bytes_locked(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  hk_store_relaxed(&slab->bytes, new_bytes);
  count_locked(0, new_bytes - old_bytes);
  hk_large_fill_change_locked(slab, start, old_bytes, new_bytes);
}

/* Grows the block into the free extent behind it. */
static bool absorb(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  hk_extent_t extent;
  size_t more_bytes = new_bytes - old_bytes;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  bool fits = hk_extent_take_at_locked(start + old_bytes, more_bytes, &extent);
  if (fits) {
    if (extent.is_zero) hk_dirty_note_touched_locked(&hk_dirty_extents, more_bytes);
    set_bytes_locked(slab, start, old_bytes, new_bytes);
  }
  hk_purge_end_change(now_ms);
  if (fits) hk_huge_note_grown_block(slab, start + old_bytes, more_bytes);
  return fits;
}

/* Grows the block into unused addresses behind it. */
static bool extend(hk_slab_t *slab, uintptr_t start, size_t old_bytes, size_t new_bytes) {
  if (!hk_os_resize((void *)start, old_bytes, new_bytes)) return false;
  if (!enter(start + old_bytes, new_bytes - old_bytes)) {
    (void)hk_os_resize((void *)start, new_bytes, old_bytes);
    return false;
  }
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  hk_dirty_note_touched_locked(&hk_dirty_extents, new_bytes - old_bytes);
  set_bytes_locked(slab, start, old_bytes, new_bytes);
  hk_purge_end_change(now_ms);
  return true;
}

static void reopen(hk_slab_t *slab, uintptr_t start, size_t bytes) {
  hk_lock_acquire(hk_lock_space);
  hk_large_fill_change_locked(slab, start, 0, bytes);
  hk_lock_release(hk_lock_space);
}

/* Returns a block for the pages of one that moves: newly mapped if the system grants that, because the pages of a free
 * extent would be lost. Free extents are whole slabs. So a block of whole pages, of a shortage, may get NULL, and is
 * copied. */
static void *make_target(const hk_slab_t *slab, size_t new_bytes) {
  bool is_zero, is_lone = HK_HARDENED && slab->is_lone;
  void *target = map_new(new_bytes, HK_SLAB_BYTES, is_lone, &is_zero);
  bool fits_extents = new_bytes % HK_SLAB_BYTES == 0 && !is_lone;
  return target == NULL && fits_extents ? take_free(new_bytes, HK_SLAB_BYTES, &is_zero) : target;
}

/* Moves the block's pages to other addresses. */
static void *move(hk_slab_t *slab, void *block, size_t old_bytes, size_t new_bytes) {
  void *target = make_target(slab, new_bytes);
  if (target == NULL) return NULL;
  /* The descriptor ends first. As soon as the pages have moved, another thread may have the old addresses, and it
   * writes the descriptor for its own memory. */
  hk_slab_t *moved = hk_slab_of(target);
  uint8_t advice = slab->huge;
  hk_lock_acquire(hk_lock_space);
  bool was_open = slab->is_open;
  hk_large_fill_move_locked(slab, old_bytes, moved, new_bytes);
  hk_lock_release(hk_lock_space);
  hk_slab_set_state(slab, hk_slab_none);
  if (!hk_os_move(block, old_bytes, target, new_bytes)) {
    hk_slab_set_state(slab, hk_slab_large);
    if (was_open) reopen(slab, (uintptr_t)block, old_bytes);
    (void)hk_large_free(moved, target);
    return NULL;
  }
  moved->huge = advice;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  count_locked((size_t)-1, -old_bytes);
  hk_purge_end_change(now_ms);
  return target;
}

/* Chosen: a block is copied if it grows by at least this share. Page faults for its new part take longer then
 * (docs/experiments/2026-11-24-room-behind-growing-blocks.md). */
#define COPY_MIN_GROWTH 4

/* Returns whether most of the range is resident. Dirty memory was in use, but the system alone can tell whether the
 * program wrote to it. */
static bool looks_resident(uintptr_t start, size_t bytes) { return hk_large_fill_is_filled(start, bytes, 0); }

static bool take_dirty(uintptr_t start, size_t bytes) {
  hk_extent_t extent;
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  bool is_taken = hk_extent_take_at_locked(start, bytes, &extent);
  if (is_taken) describe_locked(start, bytes, false, false, now_ms);
  hk_purge_end_change(now_ms);
  if (is_taken) hk_stat_add(hk_stat_large_reuse, 1);
  return is_taken;
}

/* Copies the block to dirty memory, if both are resident. Moved pages would need page faults for the new part, and the
 * dirty memory would stay resident beside them. A block with advice about huge pages moves, and keeps it. */
static void *copy_to_dirty(const hk_slab_t *slab, void *block, size_t old_bytes, size_t new_bytes) {
  if (slab->huge != hk_thp_leave || new_bytes - old_bytes < old_bytes / COPY_MIN_GROWTH) return NULL;
  hk_lock_acquire(hk_lock_space);
  uintptr_t target = hk_extent_find_dirty_locked(new_bytes);
  hk_lock_release(hk_lock_space);
  if (target == 0 || !looks_resident(target, new_bytes) || !looks_resident((uintptr_t)block, old_bytes)) return NULL;
  if (!take_dirty(target, new_bytes)) return NULL; /* another thread took it, or a purge */
  return memcpy((void *)target, block, old_bytes);
}

/* Chosen: in a hardened build a smaller block is copied, and its old addresses stay reserved as after a free. */
#define MOVE_MIN_BYTES (4 * HK_MIB)

/* Returns NULL where the caller has to copy. */
static void *resize_guarded(hk_slab_t *slab, void *block, size_t old_bytes, size_t new_bytes) {
  if (new_bytes < old_bytes) return new_bytes >= old_bytes / 2 ? block : NULL;
  if (old_bytes < MOVE_MIN_BYTES) return NULL;
  void *moved = move(slab, block, old_bytes, new_bytes);
  if (moved != NULL) hk_lone_mapping_unmap_guards(block, old_bytes);
  return moved;
}

static void *resize_pages(hk_slab_t *slab, void *block, size_t bytes) {
  size_t old_bytes = hk_load_relaxed(&slab->bytes), new_bytes = hk_align_up(bytes, hk_os_page_size());
  if (new_bytes == old_bytes) return block;
  if (HK_HARDENED) return resize_guarded(slab, block, old_bytes, new_bytes);
  if (new_bytes > old_bytes) {
    if (extend(slab, (uintptr_t)block, old_bytes, new_bytes)) return block;
    return move(slab, block, old_bytes, new_bytes);
  }
  if (!hk_os_resize(block, old_bytes, new_bytes)) return block;
  hk_lock_acquire(hk_lock_space);
  set_bytes_locked(slab, (uintptr_t)block, old_bytes, new_bytes);
  hk_lock_release(hk_lock_space);
  return block;
}

void *hk_large_resize(hk_slab_t *slab, void *block, size_t bytes, bool *is_copied) {
  if (is_copied != NULL) *is_copied = false;
  uintptr_t start = (uintptr_t)block;
  size_t old_bytes = hk_load_relaxed(&slab->bytes);
  size_t new_bytes = whole_slabs(bytes);
  if (HK_UNLIKELY(new_bytes != 0 && is_whole_pages(slab, old_bytes))) return resize_pages(slab, block, bytes);
  if (new_bytes == 0) return NULL;
  if (new_bytes == old_bytes) return block;
  hk_large_prefault_note_end(start);
  if (new_bytes < old_bytes) {
    give_up(slab, 0, start, old_bytes, new_bytes);
    return block;
  }
  hk_huge_note_growing_block(slab, start, old_bytes, new_bytes);
  if (absorb(slab, start, old_bytes, new_bytes) || extend(slab, start, old_bytes, new_bytes)) return block;
  void *copy = is_copied != NULL ? copy_to_dirty(slab, block, old_bytes, new_bytes) : NULL;
  if (copy == NULL) return move(slab, block, old_bytes, new_bytes);
  *is_copied = true;
  return copy;
}

/* ---- Sums, and fork. */

hk_large_usage_t hk_large_usage(void) {
  return (hk_large_usage_t){
      .count = hk_load_relaxed(&block_count),
      .mapped_bytes = hk_load_relaxed(&hk_dirty_extents.in_use_bytes),
      .cached_bytes = hk_extent_usage().free_bytes,
      .dirty_bytes = hk_load_relaxed(&hk_dirty_extents.dirty_bytes),
  };
}

void hk_large_repair(void) { hk_extent_repair(); }
