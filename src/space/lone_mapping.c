/* space/lone_mapping.c - L3. See lone_mapping.h. A mapping: a slab as a guard, the block, and a guard of a page or more
 * that ends with a slab.
 *
 * A freed block waits at a random place of the quarantine, inaccessible. The block that it puts out may serve a request
 * of about its size. Most keep their pages, so that a later block needs no page faults: up to a share of
 * hk_apart_room. */
#include "space/lone_mapping.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/random.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/safety.h"
#include "space/apart.h"
#include "space/region_map.h"
#include "space/wipe.h"

#define FRONT_BYTES HK_SLAB_BYTES

/* Returns the bytes from the block's start to the end of the guard behind it. */
static size_t length_to_end(size_t bytes) { return hk_align_up(bytes + hk_os_page_size(), HK_SLAB_BYTES); }

/* Chosen: the number of freed blocks in quarantine, and of those that may serve again; powers of two. Longer blocks are
 * unmapped at once, or give their pages back. */
#define PLACES 32u
#define LONGEST_BYTES (4 * HK_GIB)
#define LONGEST_KEPT_BYTES HK_MIB
/* Chosen: the share of hk_apart_room that blocks with their pages may have. */
#define KEPT_SHARE 4
/* Chosen: the most slabs between two mappings, a power of two. */
#define GAP_SLABS 16u
/* Chosen: a block serves a request that is at most this share smaller. */
#define SLACK_SHARE 4

typedef struct {
  char *block;
  size_t bytes;
  bool has_pages;
} ended_t;

/* Guarded by hk_lock_space. A child of fork may lose one, and never finds a block with another one's length. */
static struct {
  ended_t waiting[PLACES];
  ended_t ready[PLACES];
  size_t kept_bytes; /* of blocks that have their pages */
  unsigned next;     /* the place in `ready` that is given up next */
  uint64_t random;
} ended;

/* A block that the region map could not enter has no descriptor of its own: hk_slab_of leads to one that cannot be
 * written, whose state is none. */
static void unmap(const ended_t *one) {
  if (one->block == NULL) return;
  hk_slab_t *slab = hk_slab_of(one->block);
  if (hk_slab_state(slab) != hk_slab_none) hk_slab_set_state(slab, hk_slab_none); /* before others map the addresses */
  bool is_gone = hk_os_unmap(one->block - FRONT_BYTES, FRONT_BYTES + length_to_end(one->bytes));
  if (!is_gone && one->has_pages) (void)hk_os_purge(one->block, one->bytes); /* the addresses are lost */
}

static void set_locked(ended_t *place, const ended_t *one) {
  place->block = NULL;
  hk_keep_store_order();
  place->bytes = one->bytes;
  place->has_pages = one->has_pages;
  hk_keep_store_order();
  place->block = one->block;
}

static ended_t take_locked(ended_t *place) {
  ended_t taken = *place;
  place->block = NULL;
  place->has_pages = false;
  if (taken.has_pages) ended.kept_bytes -= taken.bytes;
  return taken;
}

static unsigned random_below_locked(unsigned bound) {
  ended.random ^= hk_keys.place;
  return hk_random_below(&ended.random, bound);
}

/* Unmaps all that are ended, near a limit on addresses. Returns whether there was any. */
static bool unmap_ended(void) {
  bool found = false;
  for (unsigned i = 0; i < 2 * PLACES; i++) {
    hk_lock_acquire(hk_lock_space);
    ended_t one = take_locked(i < PLACES ? &ended.waiting[i] : &ended.ready[i - PLACES]);
    hk_lock_release(hk_lock_space);
    unmap(&one);
    found = found || one.block != NULL;
  }
  return found;
}

void hk_lone_mapping_purge(void) {
  for (unsigned i = 0; i < PLACES; i++) {
    hk_lock_acquire(hk_lock_space);
    ended_t one = take_locked(&ended.ready[i]);
    bool has_pages = ended.waiting[i].has_pages;
    ended_t other = has_pages ? take_locked(&ended.waiting[i]) : one;
    hk_lock_release(hk_lock_space);
    unmap(&one);
    if (has_pages) unmap(&other);
  }
}

/* ---- Maps. */

static bool fits(const ended_t *one, size_t bytes, size_t alignment) {
  return one->block != NULL && one->bytes >= bytes && one->bytes - bytes <= bytes / SLACK_SHARE &&
         (uintptr_t)one->block % alignment == 0;
}

/* Takes the shortest ended block that is long enough. */
static ended_t find_ready(size_t bytes, size_t alignment) {
  ended_t *best = NULL, found = {NULL, 0, false};
  hk_lock_acquire(hk_lock_space);
  for (unsigned i = 0; i < PLACES; i++) {
    ended_t *one = &ended.ready[i];
    if (fits(one, bytes, alignment) && (best == NULL || one->bytes < best->bytes)) best = one;
  }
  if (best != NULL) found = take_locked(best);
  hk_lock_release(hk_lock_space);
  return found;
}

/* Gives up what lies behind the first `bytes` of an ended block. */
static bool shorten(ended_t *one, size_t bytes) {
  size_t old_end = length_to_end(one->bytes), end = length_to_end(bytes), behind = end < one->bytes ? end : one->bytes;
  if (one->has_pages && behind > bytes && !hk_os_purge_and_forbid(one->block + bytes, behind - bytes)) return false;
  if (end < old_end && !hk_os_unmap(one->block + end, old_end - end)) return false;
  one->bytes = bytes;
  return true;
}

/* Returns an ended block that serves again, all zero; NULL when none does. */
static char *use_again(size_t bytes, size_t alignment) {
  ended_t one = find_ready(bytes, alignment);
  if (one.block == NULL) return NULL;
  if (!shorten(&one, bytes) || !hk_os_allow_writes(one.block, bytes)) {
    unmap(&one);
    return NULL;
  }
  if (one.has_pages) hk_wipe_large(one.block, bytes);
  return one.block;
}

/* Returns the bytes before a block's start in its mapping: the guard, and a random number of slabs that go back at
 * once, so that distances between blocks are not known in advance. */
static size_t front_bytes(size_t alignment) {
  if (alignment > FRONT_BYTES) return alignment;
  hk_lock_acquire(hk_lock_space);
  size_t slabs = 1 + random_below_locked(GAP_SLABS);
  hk_lock_release(hk_lock_space);
  return slabs * FRONT_BYTES;
}

static char *map(size_t bytes, size_t alignment) {
  size_t to_end = length_to_end(bytes), front = front_bytes(alignment);
  char *mapping = hk_os_reserve_inaccessible(front + to_end, alignment);
  if (mapping == NULL && unmap_ended()) mapping = hk_os_reserve_inaccessible(front + to_end, alignment);
  if (mapping == NULL) return NULL;
  char *block = mapping + front;
  if (front > FRONT_BYTES) (void)hk_os_unmap(mapping, front - FRONT_BYTES);
  if (hk_os_allow_writes(block, bytes)) return block;
  (void)hk_os_unmap(block - FRONT_BYTES, FRONT_BYTES + to_end);
  return NULL;
}

void *hk_lone_mapping_make(size_t bytes, size_t alignment) {
  char *block = use_again(bytes, alignment);
  return block != NULL ? block : map(bytes, alignment);
}

/* ---- Ends. */

/* Counts the bytes of a block that is to keep its pages. Returns false, and counts nothing, when it may not. */
static bool count_kept(size_t bytes) {
  if (bytes > LONGEST_KEPT_BYTES) return false;
  size_t most = hk_apart_room() / KEPT_SHARE;
  hk_lock_acquire(hk_lock_space);
  bool has_room = ended.kept_bytes + bytes <= most;
  if (has_room) ended.kept_bytes += bytes;
  hk_lock_release(hk_lock_space);
  return has_room;
}

static void forget_kept(size_t bytes) {
  hk_lock_acquire(hk_lock_space);
  ended.kept_bytes -= bytes;
  hk_lock_release(hk_lock_space);
}

/* Puts an ended block into quarantine. Returns the one that is to be unmapped. */
static ended_t put(const ended_t *one) {
  hk_lock_acquire(hk_lock_space);
  ended_t *place = &ended.waiting[random_below_locked(PLACES)];
  ended_t out = *place;
  set_locked(place, one);
  ended_t *ready = &ended.ready[ended.next % PLACES];
  ended_t last = out;
  if (out.block != NULL) {
    ended.next++;
    last = take_locked(ready);
    set_locked(ready, &out);
  }
  hk_lock_release(hk_lock_space);
  return last;
}

void hk_lone_mapping_end(void *block, size_t bytes) {
  ended_t one = {.block = block, .bytes = bytes, .has_pages = count_kept(bytes)};
  if (one.has_pages && !hk_os_suspend_access(block, bytes)) {
    forget_kept(bytes);
    one.has_pages = false;
  }
  if (!one.has_pages && (bytes > LONGEST_BYTES || !hk_os_purge_and_forbid(block, bytes))) {
    unmap(&one);
    return;
  }
  ended_t last = put(&one);
  unmap(&last);
}

void hk_lone_mapping_drop(void *block, size_t bytes) { unmap(&(ended_t){.block = block, .bytes = bytes}); }

void hk_lone_mapping_unmap_guards(void *block, size_t bytes) {
  char *start = block;
  (void)hk_os_unmap(start - FRONT_BYTES, FRONT_BYTES);
  (void)hk_os_unmap(start + bytes, length_to_end(bytes) - bytes);
}
