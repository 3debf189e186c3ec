/* heap/purge_drain.c, span.c: the purge thread drains a span whose blocks wait for an owner that runs meanwhile. */
#include "heap/purge_drain.h"

#include "heap/carve.h"
#include "heap/mid.h"
#include "heap/steal.h"
#include "model_check/scenario_tools.h"

/* ---- A tiny class's span: the owner's last step with it is to deactivate it. */

#define TINY_COUNT (HK_SLAB_BYTES / HK_TINY_MAX_BYTES)

static hk_block_t *all[TINY_COUNT]; /* of the span */
static unsigned all_count;

static void link_from(unsigned i) {
  for (; i < all_count; i++) hk_remote_link(all[i], i + 1 < all_count ? all[i + 1] : HK_LIST_END);
}

static void post_from(unsigned i) { (void)hk_remote_post(owner, all[i], all[all_count - 1]); }

/* All of the span's blocks are in use, it is its bin's active span, and no block waits. */
static void set_up_active(void) {
  set_up_heaps();
  ignore_offers();
  all_count = TINY_COUNT;
  for (unsigned i = 0; i < all_count; i++) {
    if (i < BLOCK_COUNT) {
      all[i] = blocks[i];
    } else {
      while ((all[i] = pop_block(owner)) == NULL) (void)hk_span_carve(owner, span, TINY_COUNT);
    }
  }
  CHECK(hk_load_relaxed(&span->carved) == hk_span_capacity(span), "setup: the span is cut completely");
  link_from(0);
}

static void post_all(void) { post_from(0); }

static void drain_for_owner(void) { (void)hk_purge_drain(1, 0); }

/* The next owner of the slab describes it anew. */
static void drain_and_reuse(void) {
  drain_for_owner();
  if (hk_load_relaxed(&span->owner) == NULL) (void)hk_span_acquire(other, BLOCK_CLASS);
}

/* As in a refill that has found no block. */
static void end_allocating(void) { hk_span_deactivate(owner, BLOCK_CLASS); }

static bool is_span_of(const hk_heap_t *heap) {
  return hk_slab_state(span) == hk_slab_small && hk_load_relaxed(&span->owner) == heap;
}

static void expect_given_back_once(void) {
  drain_for_owner();
  hk_remote_drain(owner);
  CHECK(owner->damaged == NULL, "nothing is damaged");
  CHECK(!is_span_of(owner), "a span without a block in use is given back");
  CHECK(owner->span_slabs == 0, "and counted");
}

static unsigned length_of(const hk_block_t *list) {
  unsigned length = 0;
  for (; list != HK_LIST_END && length <= all_count; list = list->next) length++;
  return length;
}

static void expect_active_kept(void) {
  CHECK(is_span_of(owner), "the span that its bin allocates from stays");
  hk_remote_drain(owner);
  CHECK(length_of(owner->bin[BLOCK_CLASS].free) == all_count, "and gets its blocks");
}

/* ---- A span of few blocks, of the largest mid class, that is not its bin's active span. */

#define FEW_CLASS (HK_CLASS_COUNT - 1)

static hk_block_t *alloc_of_few(void) {
  hk_block_t *block;
  while ((block = hk_bin_pop_mid(&owner->bin[FEW_CLASS])) == NULL) {
    CHECK(hk_refill(owner, FEW_CLASS, NULL), "setup: a refill");
  }
  return block;
}

static void set_up_few(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  checker_ignore(&hk_region_map, sizeof(hk_region_map));
  owner = hk_heap_take();
  other = hk_heap_take();
  ignore_marks(owner);
  ignore_marks(other);
  ignore_offers();
  all_count = hk_class_span_slabs(FEW_CLASS) * hk_class_blocks_per_slab(FEW_CLASS);
  for (unsigned i = 0; i < all_count; i++) all[i] = alloc_of_few();
  span = hk_slab_of(all[0])->head;
  CHECK(hk_load_relaxed(&span->carved) == hk_span_capacity(span), "setup: the span is cut completely");
  hk_slab_t *next = hk_slab_of(alloc_of_few())->head;
  CHECK(next != span && owner->state[FEW_CLASS].active == next, "setup: its bin allocates from another one");
}

static void set_up_all_but_one(void) {
  set_up_few();
  link_from(1);
  post_from(1);
}

static void set_up_all_but_two(void) {
  set_up_few();
  link_from(2);
  post_from(2);
}

static void send_first(void) {
  all[0][1].next = all[0];
  hk_remote_free_now(span, all[0]);
}

static void drain(void) { hk_remote_drain(owner); }

static void take_all_up(hk_heap_t *heap) {
  hk_remote_drain(heap);
  CHECK(heap->damaged == NULL, "nothing is damaged");
  hk_mid_spill_all(heap);
}

static void expect_all_up(void) {
  take_all_up(owner);
  CHECK(!is_span_of(owner), "a span without a block in use is given back");
  CHECK(owner->span_slabs == hk_class_span_slabs(FEW_CLASS), "once");
}

static void expect_few_given_back(void) {
  drain_for_owner();
  CHECK(!hk_heap_has_incoming(owner), "what came meanwhile is looked at too");
  expect_all_up();
}

static void expect_one_in_use(void) {
  take_all_up(owner);
  CHECK(is_span_of(owner), "a span with a block in use stays");
  CHECK(length_of(span->own.free) == all_count - 1, "nothing lost, nothing twice");
}

/* ---- The owner's thread ends, and another thread steals the span, unless the purge thread has the idle heap then: it
 * drains the heap to which it has put blocks back. */

static void set_up_to_move(void) {
  set_up_few();
  hk_list_init(&other->state[FEW_CLASS].partial);
  (void)hk_free_list_push(span->free_list, all[0]);
  link_from(2);
  post_from(2);
}

static void leave_and_steal(void) {
  hk_heap_give_back(owner);
  (void)hk_steal_span(other, FEW_CLASS);
}

static void expect_none_waits(void) {
  CHECK(!hk_heap_has_incoming(owner), "no block waits for an idle heap");
  CHECK(hk_heap_take_this(owner), "the old owner's heap is idle");
  CHECK(is_span_of(other) || is_span_of(owner), "one of both has the span");
  take_all_up(is_span_of(other) ? other : owner);
  CHECK(length_of(span->own.free) == all_count - 1, "nothing lost, nothing twice");
}

#if HK_SAFETY
/* ---- Misuse: a thread frees a block that waits once more, while the drain sorts it. */

static void set_up_misuse(void) {
  set_up_all_but_one();
  checker_allow_races(all[1], sizeof(hk_block_t) + sizeof(hk_block_t *));
}

static void send_again(void) { hk_remote_free_now(span, all[1]); }

static void expect_an_end(void) {
  hk_remote_drain(owner);
  hk_mid_spill_all(owner);
  CHECK(is_span_of(owner), "a span with a block in use stays");
  CHECK(length_of(span->own.free) < all_count, "no ring");
}
#endif

const scenario_t scenarios[] = {
    {.name = "drain_of_what_was_active",
     .setup = set_up_active,
     .thread = {end_allocating, post_all, drain_and_reuse},
     .finish = expect_given_back_once},
    {.name = "drain_of_what_is_active",
     .setup = set_up_active,
     .thread = {post_all, drain_for_owner},
     .finish = expect_active_kept},
    {.name = "drain_and_push_of_the_last",
     .setup = set_up_all_but_one,
     .thread = {send_first, drain_for_owner},
     .finish = expect_few_given_back},
    {.name = "drain_and_drain",
     .setup = set_up_all_but_one,
     .thread = {drain, drain_for_owner},
     .finish = expect_one_in_use},
    {.name = "drain_and_drain_and_push",
     .setup = set_up_all_but_two,
     .thread = {send_first, drain, drain_for_owner},
     .finish = expect_one_in_use},
    {.name = "drain_and_drain_and_push_of_the_last",
     .setup = set_up_all_but_one,
     .thread = {send_first, drain, drain_for_owner},
     .finish = expect_all_up},
    {.name = "drain_and_steal",
     .setup = set_up_to_move,
     .thread = {leave_and_steal, drain_for_owner},
     .finish = expect_none_waits,
     .preemptions = 2,
     .preemptions_in_short = 1},
#if HK_SAFETY
    {.name = "drain_and_double_free",
     .setup = set_up_misuse,
     .thread = {send_again, drain_for_owner},
     .finish = expect_an_end},
#endif
    {.name = NULL},
};
