/* space/guard_slot.c, guard_record.c: threads take, free and use slots again, two free one block, and a fault handler
 * reads a slot while another thread changes it. */
#include "base/atomic.h"
#include "base/units.h"
#include "model_check/checker.h"
#include "os/os.h"
#include "space/guard_room.h"
#include "space/guard_slot.h"

/* ---- What the modelled machine does not have of os.h. The end of access counts as a write to the pages, so an access
 * of another thread at that moment is a data race. */

void *hk_os_reserve_inaccessible(size_t bytes, size_t alignment) { return hk_os_reserve(bytes, alignment); }
bool hk_os_purge_and_forbid(void *start, size_t bytes) { return hk_os_purge(start, bytes); }

bool hk_guard_room_take(uint64_t now_ms) { return (void)now_ms, true; }
void hk_guard_room_give(void) {}

/* ---- Blocks. A page has no padding, so that the scenarios are short. */

#define PAGE ((size_t)4096)
#define LONG (2 * PAGE)

static hk_guard_deed_t deed(uint64_t thread) { return (hk_guard_deed_t){.site = NULL, .thread = thread, .ms = thread}; }

static unsigned *alloc(size_t bytes, uint64_t thread) {
  hk_guard_deed_t mine = deed(thread);
  return hk_guard_slot_alloc(bytes, HK_BLOCK_ALIGNMENT, &mine, NULL);
}

static hk_guard_free_t free_block(void *block, uint64_t thread) {
  hk_guard_deed_t mine = deed(thread);
  hk_guard_view_t view;
  uintptr_t damage;
  return hk_guard_slot_free((uintptr_t)block, &mine, &view, &damage);
}

static void begin(size_t slots) { CHECK(hk_guard_slot_begin(slots), "setup: there is a pool"); }
static void set_up_one(void) { begin(1); }
static void set_up_two(void) { begin(2); }

/* ---- Slots are taken, freed and taken again. */

static unsigned taken[2];

static void use(unsigned thread, size_t bytes) {
  unsigned *block = alloc(bytes, thread + 1);
  if (block == NULL) return; /* the other thread has the last slot */
  taken[thread]++;
  CHECK(*block == 0, "a block is zero");
  *block = thread + 1;
  CHECK(*block == thread + 1, "a block is one thread's");
  CHECK(free_block(block, thread + 1) == hk_guard_free_done, "a live block is freed");
}

static void use_left(void) { use(0, PAGE); }
static void use_right(void) { use(1, PAGE); }
static void use_long_left(void) { use(0, LONG); }
static void use_long_right(void) { use(1, LONG); }
static void use_right_twice(void) {
  use_right();
  use_right();
}

static void expect_all_free(void) {
  hk_guard_usage_t usage = hk_guard_slot_usage(0);
  CHECK(usage.live == 0, "no block is left");
  CHECK(taken[0] + taken[1] > 0, "a slot that is free is taken");
}

static void expect_both_had_one(void) {
  expect_all_free();
  CHECK(taken[0] == 1 && taken[1] == 1, "each of two threads gets one of two slots");
}

/* ---- The pool is made by the first of two threads. */

static void begin_and_use_left(void) {
  if (hk_guard_slot_begin(2)) use_left();
}
static void begin_and_use_right(void) {
  if (hk_guard_slot_begin(2)) use_right();
}

/* ---- Two threads free a block. */

static void *shared;
static unsigned done[2], refused[2];

static void set_up_shared(void) {
  set_up_two();
  shared = alloc(PAGE, 1);
  CHECK(shared != NULL, "setup: a block");
}

static void free_shared(unsigned thread) {
  hk_guard_free_t result = free_block(shared, thread + 2);
  done[thread] = result == hk_guard_free_done;
  refused[thread] = result == hk_guard_free_refused;
}
static void free_shared_left(void) { free_shared(0); }
static void free_shared_right(void) { free_shared(1); }

static void expect_one_free(void) {
  CHECK(done[0] + done[1] == 1 && refused[0] + refused[1] == 1, "one of two frees is the first");
  hk_guard_view_t view;
  CHECK(hk_guard_slot_find((uintptr_t)shared, &view) && view.state == hk_guard_freed, "the slot tells of the free");
  CHECK(view.freed.thread == (done[0] != 0 ? 2u : 3u), "it names the thread that was first");
}

static void look_at_shared(void) {
  hk_guard_view_t view;
  if (!hk_guard_slot_find((uintptr_t)shared, &view)) return; /* it changes at this moment */
  CHECK(view.allocated.thread == 1 && view.bytes == PAGE, "a slot tells of the allocation");
  CHECK(view.freed.ms == view.freed.thread && view.freed.thread <= 3, "a slot tells of one free");
}

/* ---- A fault handler reads a slot that another thread frees and uses again. The lives of the slot differ in each
 * field: the first is of LIFE bytes by thread 11, freed by thread 12, the second of half of that by thread 21. */

static size_t life;

static void set_up_life(size_t bytes) {
  set_up_one();
  life = bytes;
  shared = alloc(bytes, 11);
  CHECK(shared != NULL, "setup: a block");
}
static void set_up_life_of_a_page(void) { set_up_life(PAGE); }

static void end_life(void) { CHECK(free_block(shared, 12) == hk_guard_free_done, "the block is freed"); }
static void begin_another(void) { CHECK(alloc(life / 2, 21) != NULL, "the only slot is used again"); }

static void end_and_begin_another(void) {
  end_life();
  begin_another();
}

static void set_up_end_of_a_page(void) {
  set_up_life(PAGE);
  end_life();
}
static void set_up_end_of_a_long_life(void) {
  set_up_life(2 * LONG);
  end_life();
}

static void look(void) {
  hk_guard_view_t view;
  if (!hk_guard_slot_find((uintptr_t)shared, &view)) return; /* it changes at this moment */
  bool is_first = view.allocated.thread == 11;
  CHECK(is_first || view.allocated.thread == 21, "a slot tells of an allocation");
  CHECK(view.bytes == (is_first ? life : life / 2), "a copy of a slot is of one life");
  CHECK(view.allocated.ms == view.allocated.thread, "a copy of a slot is of one life");
  CHECK(view.freed.thread == 0 || (is_first && view.freed.thread == 12), "a copy of a slot is of one life");
  CHECK((view.state == hk_guard_freed) == (view.freed.ms != 0), "a slot that was freed tells of the free");
}

const scenario_t scenarios[] = {
    {.name = "guard_two_take", .setup = set_up_two, .thread = {use_left, use_right}, .finish = expect_both_had_one},
    {.name = "guard_take_one_again",
     .setup = set_up_one,
     .thread = {use_left, use_right_twice},
     .finish = expect_all_free},
    {.name = "guard_take_long_again",
     .setup = set_up_one,
     .thread = {use_long_left, use_long_right},
     .finish = expect_all_free},
    {.name = "guard_two_begin", .thread = {begin_and_use_left, begin_and_use_right}, .finish = expect_all_free},
    {.name = "guard_two_free",
     .setup = set_up_shared,
     .thread = {free_shared_left, free_shared_right},
     .finish = expect_one_free},
    {.name = "guard_look_while_freed", .setup = set_up_life_of_a_page, .thread = {end_life, look}},
    {.name = "guard_look_while_used_again", .setup = set_up_end_of_a_page, .thread = {begin_another, look}},
    {.name = "guard_look_while_mapped_again", .setup = set_up_end_of_a_long_life, .thread = {begin_another, look}},
    {.name = "guard_look_at_two_lives", .setup = set_up_life_of_a_page, .thread = {end_and_begin_another, look}},
    {.name = "guard_two_free_and_look",
     .setup = set_up_shared,
     .thread = {free_shared_left, free_shared_right, look_at_shared},
     .finish = expect_one_free},
    {.name = NULL},
};
