/* heap/pool.c, heap/heap.c, heap/thread.c: heaps change their thread while other threads free blocks into them. */
#include "model_check/scenario_tools.h"

/* The thread that has a heap writes the heap's mark. Two such threads at once are a data race, or fail note_take. */
static unsigned has_thread[2];

static unsigned *mark_of(const hk_heap_t *heap) {
  return heap == owner ? &has_thread[0] : heap == other ? &has_thread[1] : NULL;
}

static void note_take(const hk_heap_t *heap) {
  unsigned *mark = mark_of(heap);
  if (mark == NULL) return;
  CHECK(*mark == 0, "a heap has one thread at a time");
  *mark = 1;
}

static void note_give_back(const hk_heap_t *heap) {
  unsigned *mark = mark_of(heap);
  if (mark != NULL) *mark = 0;
}

static void set_up_attached(void) {
  set_up_heaps();
  ignore_offers();
  has_thread[0] = has_thread[1] = 1;
}

static void set_up_idle(void) {
  set_up_heaps();
  ignore_offers();
  hk_heap_give_back(owner);
  has_thread[1] = 1;
}

static void leave_owner(void) {
  hk_store_relaxed(&hk_thread_heap, owner);
  note_give_back(owner);
  hk_thread_on_exit();
}

static void leave_other(void) {
  hk_store_relaxed(&hk_thread_heap, other);
  hk_remote_free(other, span, blocks[0]);
  note_give_back(other);
  hk_thread_on_exit(); /* sends the batch */
}

static void send_one(void) { hk_remote_free_now(span, blocks[1]); }

/* A new thread makes its first request and ends. */
static void live_briefly(void) {
  hk_thread_lease_t lease = hk_thread_enter();
  note_take(lease.heap);
  if (hk_heap_has_incoming(lease.heap)) hk_remote_drain(lease.heap);
  hk_thread_leave(lease);
  note_give_back(lease.heap);
  hk_thread_on_exit();
}

static void tidy_up(void) {
  hk_remote_drain_idle();
  hk_remote_drain_idle();
}

static void tidy_once(void) { hk_remote_drain_idle(); }

static void adopt(void) {
  hk_heap_t *heap = hk_heap_take();
  note_take(heap);
}

/* A new thread, which first frees a block of the owner's, takes the owner's heap. */
static void follow(void) {
  if (!hk_heap_take_this(owner)) return;
  note_take(owner);
  if (hk_heap_has_incoming(owner)) hk_remote_drain(owner);
  note_give_back(owner);
  hk_remote_give_back(owner);
}

static void take_this(void) {
  if (hk_heap_take_this(owner)) note_take(owner);
}

static void expect_zero(void) { expect_home(1); }
static void expect_one(void) { expect_home(2); }
static void expect_three(void) { expect_home(8); }

/* Adopts a heap that a thread has left, and allocates from it: all that the heap had is still in it. */
static void use_what_is_there(void) {
  hk_heap_t *heap = hk_heap_take();
  note_take(heap);
  hk_block_t *block = pop_block(heap);
  if (block == NULL) return;
  CHECK(heap == owner && block == blocks[3], "what was left is what is found");
  block[1].next = block;
}

static void free_own_and_leave(void) {
  hk_store_relaxed(&hk_thread_heap, owner);
  (void)hk_free_list_push(span->free_list, blocks[3]);
  note_give_back(owner);
  hk_thread_on_exit();
}

/* ---- Remote frees while a heap changes its thread. */

static void give_owner_to_pool(void) {
  note_give_back(owner);
  hk_remote_give_back(owner);
}

static void drain_one(hk_heap_t *heap) {
  note_take(heap);
  (void)hk_remote_drain(heap);
  note_give_back(heap);
}

static void drain_all(void) { hk_heap_visit_idle(drain_one); }

static void expect_none_waits(void) {
  CHECK(!hk_heap_has_incoming(owner), "nothing waits for a heap that no thread has");
  expect_home(2);
}

static void expect_both_home(void) {
  CHECK(!hk_heap_has_incoming(owner), "nothing waits for a heap that no thread has");
  expect_home(1);
}

/* ---- The slots, and the list beyond them. */

static void set_up_two_idle(void) {
  set_up_heaps();
  ignore_offers();
  hk_heap_give_back(owner);
  hk_heap_give_back(other);
}

static void leave_other_empty(void) {
  hk_store_relaxed(&hk_thread_heap, other);
  note_give_back(other);
  hk_thread_on_exit();
}

/* A thread finds each idle heap once. */
static void expect_both_in_pool(void) {
  for (unsigned i = 0; i < HK_POOL_SLOTS && !(has_thread[0] == 1 && has_thread[1] == 1); i++) note_take(hk_heap_take());
  CHECK(has_thread[0] == 1 && has_thread[1] == 1, "no idle heap is lost");
}

static void give_both_back(void) {
  note_give_back(owner);
  hk_heap_give_back(owner);
  note_give_back(other);
  hk_heap_give_back(other);
}

/* Fills the slots with other heaps. */
static void set_up_beyond_slots(void) {
  set_up_attached();
  for (unsigned i = 0; i < HK_POOL_SLOTS; i++) hk_heap_give_back(hk_heap_create(hk_heap_own));
}

static void give_owner_back(void) {
  note_give_back(owner);
  hk_heap_give_back(owner);
}

static void give_other_back(void) {
  note_give_back(other);
  hk_heap_give_back(other);
}

static void set_up_one_beyond(void) {
  set_up_beyond_slots();
  give_owner_back();
}

static void visit(hk_heap_t *heap) {
  note_take(heap);
  note_give_back(heap);
}

static void visit_all(void) { hk_heap_visit_idle(visit); }

/* ---- The list of all heaps. */

static void add_heap(void) { CHECK(hk_heap_take() != NULL, "there is memory"); }

static void walk_heaps(void) {
  unsigned count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) count++;
  CHECK(count >= 2 && count <= 4, "the list leads to every heap that was there before");
}

static void expect_four(void) {
  unsigned count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) count++;
  CHECK(count == 4, "no heap is lost");
}

const scenario_t scenarios[] = {
    {.name = "exit_and_free", .setup = set_up_attached, .thread = {leave_owner, send_one}, .finish = expect_none_waits},
    {.name = "exit_and_free_and_adopt",
     .setup = set_up_attached,
     .thread = {give_owner_to_pool, send_one, adopt},
     .finish = expect_one,
     .preemptions_in_short = 2},
    {.name = "exit_of_both",
     .setup = set_up_attached,
     .thread = {leave_owner, leave_other},
     .finish = expect_both_home,
     .preemptions_in_short = 2},
    {.name = "exit_of_other_and_adopt", .setup = set_up_idle, .thread = {leave_other, adopt}, .finish = expect_zero},
    {.name = "free_before_idle",
     .setup = set_up_attached,
     .thread = {give_owner_to_pool, send_one},
     .finish = expect_none_waits},
    {.name = "visit_before_idle",
     .setup = set_up_idle,
     .thread = {drain_all, send_one},
     .finish = expect_none_waits,
     .preemptions_in_short = 2},
    {.name = "exit_and_reuse",
     .setup = set_up_attached,
     .thread = {free_own_and_leave, use_what_is_there, use_what_is_there}},
    {.name = "adopt_and_adopt_and_free",
     .setup = set_up_idle,
     .thread = {adopt, adopt, send_one},
     .finish = expect_one,
     .preemptions_in_short = 2},
    {.name = "start_and_free",
     .setup = set_up_idle,
     .thread = {live_briefly, send_one},
     .finish = expect_one,
     .preemptions_in_short = 2},
    {.name = "adopt_and_tidy_and_free",
     .setup = set_up_idle,
     .thread = {adopt, tidy_once, send_one},
     .finish = expect_one,
     .preemptions_in_short = 2},
    {.name = "tidy_and_free", .setup = set_up_idle, .thread = {tidy_up, send_one}, .finish = expect_one},
    {.name = "follow_and_adopt_and_free",
     .setup = set_up_idle,
     .thread = {take_this, adopt, send_one},
     .finish = expect_one},
    {.name = "exit_and_follow",
     .setup = set_up_attached,
     .thread = {free_own_and_leave, follow},
     .finish = expect_three},
    {.name = "follow_and_free",
     .setup = set_up_idle,
     .thread = {follow, send_one},
     .finish = expect_none_waits,
     .preemptions_in_short = 2},
    {.name = "follow_and_follow_and_tidy", .setup = set_up_idle, .thread = {take_this, take_this, tidy_up}},
    {.name = "two_idle_and_three_takers", .setup = set_up_two_idle, .thread = {adopt, adopt, take_this}},
    {.name = "exit_and_exit",
     .setup = set_up_attached,
     .thread = {leave_owner, leave_other_empty},
     .finish = expect_both_in_pool},
    {.name = "give_back_and_adopt_and_follow",
     .setup = set_up_attached,
     .thread = {give_both_back, adopt, take_this},
     .finish = expect_both_in_pool},
    {.name = "visit_and_adopt", .setup = set_up_two_idle, .thread = {visit_all, adopt}, .finish = expect_both_in_pool},
    {.name = "visit_and_follow",
     .setup = set_up_two_idle,
     .thread = {visit_all, take_this},
     .finish = expect_both_in_pool},
    {.name = "beyond_slots_two_and_adopt",
     .setup = set_up_beyond_slots,
     .thread = {give_owner_back, give_other_back, adopt},
     .finish = expect_both_in_pool},
    {.name = "beyond_slots_and_two_adopt",
     .setup = set_up_one_beyond,
     .thread = {adopt, adopt, give_other_back},
     .finish = expect_both_in_pool},
    {.name = "new_heaps_and_a_walk",
     .setup = set_up_heaps,
     .thread = {add_heap, add_heap, walk_heaps},
     .finish = expect_four},
    {.name = NULL},
};
