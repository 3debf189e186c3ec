/* heap/steal.c, heap/remote.c: a span moves from an idle heap to another one while threads free its blocks. */
#include "heap/steal.h"

#include "model_check/scenario_tools.h"

static hk_heap_t *third; /* of a thread that uses neither of the other two */
static bool is_freed[BLOCK_COUNT];

static void ignore_what_is_not_stolen(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_CLASS_SET_WORDS; i++) {
    if (i != BLOCK_CLASS / 64) checker_ignore(&heap->offer[i], sizeof(heap->offer[i]));
  }
  hk_list_init(&heap->state[BLOCK_CLASS].partial);
}

static void set_up_three(void) {
  set_up_heaps();
  third = hk_heap_take();
  ignore_marks(third);
  ignore_what_is_not_stolen(owner);
  ignore_what_is_not_stolen(other);
  ignore_what_is_not_stolen(third);
}

/* `other` is about to grow, and the owner is idle. */
static void set_up_active(void) {
  set_up_three();
  hk_heap_give_back(owner);
}

/* One block is in the owner's incoming list already. */
static void set_up_pending(void) {
  set_up_three();
  is_freed[2] = true;
  hk_remote_free_now(span, blocks[2]);
  hk_heap_give_back(owner);
}

/* The span is not its bin's active span. */
static void set_up_partial(void) {
  set_up_three();
  hk_span_deactivate(owner, BLOCK_CLASS);
  (void)hk_free_list_push(span->free_list, blocks[3]);
  is_freed[3] = true;
  hk_heap_give_back(owner);
}

/* Frees a block as free does. Before, the program writes into the block. */
static void free_as(hk_heap_t *heap, unsigned i) {
  blocks[i][1].next = blocks[i];
  is_freed[i] = true;
  if (hk_load_relaxed(&span->owner) == heap) {
    (void)hk_free_list_push(span->free_list, blocks[i]);
  } else {
    hk_remote_free(heap, span, blocks[i]);
  }
}

static void send(void) {
  blocks[2][1].next = blocks[2];
  is_freed[2] = true;
  hk_remote_free_now(span, blocks[2]);
}

static void take_back(hk_heap_t *heap) {
  if (hk_heap_has_incoming(heap)) hk_remote_drain(heap);
  hk_remote_flush(heap);
}

static void steal(void) { (void)hk_steal_span(other, BLOCK_CLASS); }

static void steal_and_free(void) {
  steal();
  free_as(other, 0);
}

/* The thief's own thread ends, and drains what has come meanwhile. */
static void steal_and_leave(void) {
  steal();
  hk_remote_give_back(other);
}

/* From the thief's heap the span may move on. */
static void steal_and_hand_over(void) {
  steal();
  hk_heap_give_back(other);
}

static void steal_too(void) {
  (void)hk_steal_span(third, BLOCK_CLASS);
  free_as(third, 3);
}

/* Another thread takes the old owner's heap, drains it, and frees a block, which may still be that heap's or not. */
static void adopt_and_free(void) {
  if (!hk_heap_take_this(owner)) return;
  take_back(owner);
  free_as(owner, 1);
}

static void adopt(void) { (void)hk_heap_take_this(owner); }

static void tidy(void) { hk_remote_drain_idle(); }

/* Each freed block comes once to the heap that has the span in the end, by way of the heaps that had it before. */
static void expect_at_the_last_owner(void) {
  hk_heap_t *heaps[] = {owner, other, third};
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 3; i++) take_back(heaps[i]);
  }
  hk_heap_t *heap = hk_load_relaxed(&span->owner);
  for (unsigned i = 0; i < 3; i++) CHECK(heaps[i]->span_slabs == (heaps[i] == heap), "a span is one heap's");
  unsigned expected = 0;
  for (unsigned i = 0; i < BLOCK_COUNT; i++) expected |= (unsigned)is_freed[i] << i;
  if (heap->state[BLOCK_CLASS].active != span) {
    hk_span_unlink(span);
    CHECK(hk_list_is_empty(&heap->state[BLOCK_CLASS].partial), "it was in its owner's list");
    hk_span_activate(heap, span);
  }
  expect_home_in(heap, expected);
}

/* The heap that the block was sent to sends it on, to a heap that may be idle. */
static void expect_none_waits(void) {
  hk_heap_t *heaps[] = {owner, other};
  for (unsigned i = 0; i < 2; i++) {
    CHECK(hk_heap_life(heaps[i]) != hk_heap_idle || !hk_heap_has_incoming(heaps[i]),
          "nothing waits for a heap that no thread has");
  }
  expect_at_the_last_owner();
}

const scenario_t scenarios[] = {
    {.name = "send_to_a_span_that_moved",
     .setup = set_up_active,
     .thread = {steal_and_leave, send},
     .finish = expect_none_waits,
     .preemptions = 2,
     .preemptions_in_short = 1},
    {.name = "steal_and_free",
     .setup = set_up_active,
     .thread = {steal_and_free, send},
     .finish = expect_at_the_last_owner,
     .preemptions_in_short = 2},
    {.name = "steal_and_adopt",
     .setup = set_up_pending,
     .thread = {steal_and_free, adopt_and_free},
     .finish = expect_at_the_last_owner},
    {.name = "steal_and_adopt_and_free",
     .setup = set_up_active,
     .thread = {steal, adopt_and_free, send},
     .finish = expect_at_the_last_owner,
     .preemptions = 2,
     .preemptions_in_short = 1},
    {.name = "steal_and_steal",
     .setup = set_up_pending,
     .thread = {steal_and_free, steal_too},
     .finish = expect_at_the_last_owner,
     .preemptions = 3,
     .preemptions_in_short = 2},
    {.name = "steal_and_steal_and_adopt",
     .setup = set_up_active,
     .thread = {steal, steal_too, adopt},
     .finish = expect_at_the_last_owner,
     .preemptions_in_short = 2},
    {.name = "steal_and_move_on",
     .setup = set_up_pending,
     .thread = {steal_and_hand_over, steal_too},
     .finish = expect_at_the_last_owner,
     .preemptions = 2,
     .preemptions_in_short = 1},
    {.name = "steal_and_tidy",
     .setup = set_up_pending,
     .thread = {steal_and_free, tidy},
     .finish = expect_at_the_last_owner,
     .preemptions_in_short = 2},
    {.name = "steal_of_partial_and_free",
     .setup = set_up_partial,
     .thread = {steal_and_free, send},
     .finish = expect_at_the_last_owner,
     .preemptions_in_short = 2},
    {.name = NULL},
};
