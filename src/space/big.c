/* space/big.c - L3. See big.h.
 *
 * Only the first 64 KiB of a big block have a descriptor that says so. The mapping is a whole number of slabs, so that
 * no two blocks share a descriptor and a block has room to grow by a little; what is not touched costs no memory.
 */
#include "space/big.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/count.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/region_map.h"

static _Atomic(size_t) block_count;
static _Atomic(size_t) mapped_bytes;

/* Mappings that the system did not take back (it refuses when unmapping would split one of too many): purged, and the
 * first to be used again. Guarded by hk_lock_space. */
static hk_list_t refused;

size_t hk_big_good_size(size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX - HK_SLAB_BYTES) return 0;
  return hk_align_up(bytes, HK_SLAB_BYTES);
}

/* Blocks that fill a huge page start where one can start. */
static size_t least_alignment(size_t bytes) { return bytes >= HK_SUPERSLAB_BYTES ? HK_SUPERSLAB_BYTES : HK_SLAB_BYTES; }

static void count_in(size_t bytes) {
  hk_count(hk_count_shared_update, 2);
  (void)hk_add_relaxed(&block_count, 1);
  (void)hk_add_relaxed(&mapped_bytes, bytes);
}

static void count_out(size_t bytes) {
  hk_count(hk_count_shared_update, 2);
  (void)hk_sub_relaxed(&block_count, 1);
  (void)hk_sub_relaxed(&mapped_bytes, bytes);
}

static void describe(hk_slab_t *slab, size_t bytes) {
  hk_store_relaxed(&slab->bytes, bytes);
  hk_slab_set_state(slab, hk_slab_big);
  count_in(bytes);
}

/* A refused mapping's place is kept in its descriptor: `sink` is of no other use there. */
static void keep_refused(hk_slab_t *slab, void *start) {
  slab->sink = start;
  hk_lock_acquire(hk_lock_space);
  if (refused.next == NULL) hk_list_init(&refused);
  hk_slab_set_state(slab, hk_slab_free);
  hk_list_push_front(&refused, &slab->link);
  hk_lock_release(hk_lock_space);
}

static void *take_refused(size_t bytes, size_t alignment) {
  void *found = NULL;
  hk_lock_acquire(hk_lock_space);
  for (hk_list_t *node = refused.next; node != NULL && node != &refused; node = node->next) {
    hk_slab_t *slab = HK_CONTAINER_OF(node, hk_slab_t, link);
    if (hk_load_relaxed(&slab->bytes) != bytes || !hk_is_aligned((uintptr_t)slab->sink, alignment)) continue;
    hk_list_remove(node);
    found = slab->sink;
    slab->sink = NULL;
    break;
  }
  hk_lock_release(hk_lock_space);
  return found;
}

void *hk_big_alloc(size_t bytes, size_t alignment, bool *zero) {
  size_t mapping_bytes = hk_big_good_size(bytes);
  if (mapping_bytes == 0) return NULL;
  size_t least = least_alignment(mapping_bytes);
  if (alignment < least) alignment = least;

  void *block = take_refused(mapping_bytes, alignment);
  *zero = block == NULL; /* a refused one was purged, but nobody says that this was not refused too */
  if (block == NULL) block = hk_os_reserve(mapping_bytes, alignment);
  if (block == NULL) return NULL;
  if (!hk_region_map_enter(block)) {
    (void)hk_os_unmap(block, mapping_bytes);
    return NULL;
  }
  describe(hk_slab_of(block), mapping_bytes);
  return block;
}

bool hk_big_free(hk_slab_t *slab, void *block) {
  size_t bytes = hk_load_relaxed(&slab->bytes);
  /* Before the mapping goes: the next moment the system may give its addresses to somebody else. */
  uint8_t expected = hk_slab_big;
  if (!hk_compare_exchange_acquire(&slab->state, &expected, (uint8_t)hk_slab_none)) return false;
  count_out(bytes);
  if (!hk_os_unmap(block, bytes)) {
    (void)hk_os_purge(block, bytes);
    keep_refused(slab, block);
  }
  return true;
}

static void *move(void *block, size_t old_bytes, size_t new_bytes) {
  bool zero;
  void *target = hk_big_alloc(new_bytes, 1, &zero);
  if (target == NULL) return NULL;
  if (hk_os_move(block, old_bytes, target, new_bytes)) return target;
  (void)hk_big_free(hk_slab_of(target), target);
  return NULL;
}

void *hk_big_resize(hk_slab_t *slab, void *block, size_t bytes) {
  size_t old_bytes = hk_load_relaxed(&slab->bytes);
  size_t new_bytes = hk_big_good_size(bytes);
  if (new_bytes == 0) return NULL;
  if (new_bytes == old_bytes) return block;
  if (hk_os_resize(block, old_bytes, new_bytes)) {
    hk_store_relaxed(&slab->bytes, new_bytes);
    (void)hk_add_relaxed(&mapped_bytes, new_bytes - old_bytes);
    return block;
  }
  /* The old addresses are free as soon as the pages have moved: the descriptor must have let go of them before. */
  hk_slab_set_state(slab, hk_slab_none);
  void *target = move(block, old_bytes, new_bytes);
  if (target == NULL) {
    hk_slab_set_state(slab, hk_slab_big);
    return NULL;
  }
  count_out(old_bytes);
  return target;
}

hk_big_usage_t hk_big_usage(void) {
  return (hk_big_usage_t){.count = hk_load_relaxed(&block_count), .mapped_bytes = hk_load_relaxed(&mapped_bytes)};
}

void hk_big_repair(void) {
  hk_list_init(&refused); /* its links may be half set; what it held is purged and lost to the child */
}
