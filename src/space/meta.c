/* space/meta.c - L3. See meta.h. Records are carved from a chunk, from its start to its end. Then the next chunk is
 * mapped. */
#include "space/meta.h"

#include <stdint.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/safety.h"

/* Chosen: at most a few mappings for thousands of heaps, and little address space for a small program. */
#define META_FIRST_BYTES (64 * HK_KIB)
#define META_CHUNK_BYTES (256 * HK_KIB)
/* In a hardened build chunks do not join, and a heap is larger. */
#define META_CHUNK_BYTES_HARDENED HK_MIB

/* Guarded by hk_lock_meta. Each step leaves a state that a child of fork can use; at worst it loses a piece. */
static struct {
  uintptr_t next;
  uintptr_t end;
  _Atomic(size_t) mapped_bytes;
} meta;

/* Where the chunks are. A chunk directly below the last range becomes part of that range, as most chunks do. Written
 * under hk_lock_meta, a range's start after its end. */
typedef struct {
  _Atomic(uintptr_t) start; /* 0: none */
  _Atomic(uintptr_t) end;
} range_t;

/* The first range is at the end: a small program writes no other (hakmem-order.ld.in). */
#define RANGES_MAX 256
static range_t ranges[RANGES_MAX];
static unsigned range_count;

static range_t *range_at(unsigned i) { return &ranges[RANGES_MAX - 1 - i]; }

static void note_chunk_locked(uintptr_t start, size_t bytes) {
  if (range_count > 0 && hk_load_relaxed(&range_at(range_count - 1)->start) == start + bytes) {
    hk_store_release(&range_at(range_count - 1)->start, start);
  } else if (range_count < RANGES_MAX) {
    range_t *range = range_at(range_count++);
    hk_store_relaxed(&range->end, start + bytes);
    hk_store_release(&range->start, start); /* with hk_meta_visit */
  }
}

void hk_meta_visit(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context) {
  for (unsigned i = 0; i < RANGES_MAX; i++) {
    uintptr_t start = hk_load_acquire(&range_at(i)->start);
    if (start == 0) break;
    visit(context, start, hk_load_relaxed(&range_at(i)->end) - start);
  }
}

/* Returns NULL when the chunk is used up. */
static void *carve_locked(size_t bytes) {
  if (meta.next + bytes > meta.end) return NULL;
  void *piece = (void *)meta.next;
  meta.next += bytes;
  return piece;
}

static void begin_chunk_locked(uintptr_t start, size_t bytes) {
  hk_bump_relaxed(&meta.mapped_bytes, bytes);
  note_chunk_locked(start, bytes);
  meta.end = 0; /* Between these stores the chunk counts as used up, wherever the new chunk lies. */
  hk_keep_store_order();
  meta.next = start;
  hk_keep_store_order();
  meta.end = start + bytes;
}

/* The bytes on either side of a chunk that no access may touch, in a hardened build. */
static size_t guard_bytes(void) { return HK_HARDENED ? hk_os_page_size() : 0; }

static void *reserve(size_t bytes) {
  size_t guard = guard_bytes();
  char *start = hk_os_reserve_small(bytes + 2 * guard, hk_os_page_size());
  if (start == NULL || guard == 0) return start;
  (void)hk_os_purge_and_forbid(start, guard);
  (void)hk_os_purge_and_forbid(start + guard + bytes, guard);
  return start + guard;
}

static void give_back(void *chunk, size_t bytes) {
  size_t guard = guard_bytes();
  (void)hk_os_unmap((char *)chunk - guard, bytes + 2 * guard);
}

/* Maps a chunk for a record of `bytes` and sets `*chunk_bytes`; NULL when the system refuses. */
static void *map_chunk(size_t bytes, size_t *chunk_bytes) {
  size_t least_bytes = hk_align_up(bytes, hk_os_page_size());
  bool is_first = hk_load_relaxed(&meta.mapped_bytes) == 0;
  *chunk_bytes = hk_larger(least_bytes, is_first      ? META_FIRST_BYTES
                                        : HK_HARDENED ? META_CHUNK_BYTES_HARDENED
                                                      : META_CHUNK_BYTES);
  void *chunk = reserve(*chunk_bytes);
  if (chunk != NULL || *chunk_bytes == least_bytes) return chunk;
  *chunk_bytes = least_bytes; /* the system may refuse a whole chunk near a limit on addresses */
  return reserve(least_bytes);
}

/* Maps a chunk without the lock. When another thread has begun a chunk with room meanwhile, that chunk serves this
 * request too, and the new one is unmapped. */
static void *carve_new(size_t bytes) {
  size_t chunk_bytes;
  void *chunk = map_chunk(bytes, &chunk_bytes);
  hk_lock_acquire(hk_lock_meta);
  void *piece = carve_locked(bytes);
  bool is_needed = piece == NULL && chunk != NULL;
  if (is_needed) {
    begin_chunk_locked((uintptr_t)chunk, chunk_bytes);
    piece = carve_locked(bytes);
  }
  hk_lock_release(hk_lock_meta);
  if (chunk != NULL && !is_needed) give_back(chunk, chunk_bytes);
  return piece;
}

/* Near a limit on addresses the chunks of other threads, which go back at once, may have been in the way: so there is a
 * second try. */
static HK_NOINLINE void *alloc_from_new(size_t bytes) {
  void *piece = carve_new(bytes);
  return piece != NULL ? piece : carve_new(bytes);
}

void *hk_meta_alloc(size_t bytes) {
  bytes = hk_align_up(bytes, HK_CACHE_LINE_BYTES);
  hk_lock_acquire(hk_lock_meta);
  void *piece = carve_locked(bytes);
  hk_lock_release(hk_lock_meta);
  return piece != NULL ? piece : alloc_from_new(bytes);
}

size_t hk_meta_mapped_bytes(void) { return hk_load_relaxed(&meta.mapped_bytes); }

size_t hk_meta_used_bytes(void) {
  hk_lock_acquire(hk_lock_meta);
  size_t unused = meta.end > meta.next ? meta.end - meta.next : 0;
  hk_lock_release(hk_lock_meta);
  return hk_load_relaxed(&meta.mapped_bytes) - unused;
}
