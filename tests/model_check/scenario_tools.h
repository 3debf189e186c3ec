/* Common code of the allocator's scenarios: a few blocks of one heap, and checks of where they are in the end. Each
 * program includes it, since it has to be instrumented. */
#ifndef HK_TESTS_MODEL_CHECK_SCENARIO_TOOLS_H
#define HK_TESTS_MODEL_CHECK_SCENARIO_TOOLS_H

#include "base/atomic.h"
#include "heap/heap.h"
#include "heap/orphan.h"
#include "heap/pool.h"
#include "heap/refill.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "heap/thread.h"
#include "model_check/checker.h"
#include "os/shard.h"
#include "policy/stat.h"
#include "space/region_map.h"

/* The first refill of the largest tiny class carves this many blocks. */
#define BLOCK_COUNT 4u
#define BLOCK_CLASS (hk_class_of(HK_TINY_MAX_BYTES))

static hk_heap_t *owner; /* of all blocks */
static hk_heap_t *other; /* of the thread that frees them */
static hk_slab_t *span;
static hk_block_t *blocks[BLOCK_COUNT];

static inline hk_block_t *pop_block(hk_heap_t *heap) { return hk_bin_pop(&heap->bin[BLOCK_CLASS]); }

/* Ignores what no decision here depends on: statistics, and fields for a child of fork or a machine with several
 * nodes. */
static inline void ignore_marks(hk_heap_t *heap) {
  checker_ignore(&heap->stat, sizeof(heap->stat));
  checker_ignore(&heap->is_busy, sizeof(heap->is_busy));
  checker_ignore(&heap->shard, sizeof(heap->shard));
}

/* Ignores the heaps' offers, for scenarios in which no heap grows. */
static inline void ignore_offers(void) {
  checker_ignore(owner->offer, sizeof(owner->offer));
  checker_ignore(other->offer, sizeof(other->offer));
}

/* Makes two heaps. All carved blocks of the owner are in use. */
static inline void set_up_heaps(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  checker_ignore(&hk_shard_count, sizeof(hk_shard_count));
  owner = hk_heap_take();
  other = hk_heap_take();
  ignore_marks(owner);
  ignore_marks(other);
  CHECK(hk_refill(owner, BLOCK_CLASS, NULL), "setup: a refill");
  for (unsigned i = 0; i < BLOCK_COUNT; i++) {
    blocks[i] = pop_block(owner);
    CHECK(blocks[i] != NULL, "setup: the first refill carves four blocks");
  }
  CHECK(pop_block(owner) == NULL, "setup: and no more");
  span = hk_slab_of(blocks[0])->head;
  checker_name(&owner->shared.incoming, "owner's incoming");
  checker_name(&owner->life, "owner's life");
  checker_name(&span->owner, "span's owner");
}

/* Takes all blocks out of a heap's list, and checks that each comes once at most. Returns one bit a block. */
static inline unsigned take_all_of(hk_heap_t *heap) {
  unsigned found = 0;
  for (hk_block_t *block; (block = pop_block(heap)) != NULL;) {
    unsigned bit = 0;
    for (unsigned i = 0; i < BLOCK_COUNT; i++) {
      if (blocks[i] == block) bit = 1u << i;
    }
    CHECK(bit != 0, "what is at home is a block");
    CHECK((found & bit) == 0, "no block is handed out twice");
    found |= bit;
  }
  return found;
}

static inline unsigned take_all_home(void) { return take_all_of(owner); }

/* Checks a program that frees each block once: the heap has each expected block once, and no damage. */
static inline void expect_home_in(hk_heap_t *heap, unsigned expected) {
  hk_remote_drain(heap);
  CHECK(heap->damaged == NULL, "nothing is damaged");
  unsigned found = take_all_of(heap);
  CHECK(heap->bin[BLOCK_CLASS].free == HK_LIST_END, "the list is whole");
  CHECK((expected & ~found) == 0, "no block is lost");
  CHECK((found & ~expected) == 0, "no block comes home that nobody freed");
}

static inline void expect_home(unsigned expected) { expect_home_in(owner, expected); }

#endif
