/* os/lock.c: mutual exclusion, no lost wake-up, and the repair in a child of fork. */
#include "base/atomic.h"
#include "base/units.h"
#include "model_check/checker.h"
#include "os/lock.h"
#include "os/os.h"

static unsigned guarded; /* plain: two at a time are a data race */
static unsigned expected;

static void add(void) {
  hk_lock_acquire(hk_lock_space);
  guarded++;
  hk_lock_release(hk_lock_space);
}

static void add_twice(void) {
  add();
  add();
}

static void expect_sum(void) { CHECK(guarded == expected, "each addition is there"); }

static void set_up(unsigned additions) {
  expected = additions;
  checker_ignore_loaded(true);
  (void)hk_lock_sleep_count(hk_lock_space);
  (void)hk_lock_take_count(hk_lock_space);
  (void)hk_lock_wait_count(hk_lock_space);
  checker_ignore_loaded(false);
}

static void set_up_two(void) { set_up(2); }
static void set_up_three(void) { set_up(3); }
static void set_up_four(void) { set_up(4); }

/* ---- In a child of fork: the kernel has wiped the locks' page. */

static unsigned repairs;

static void repair(void) { repairs++; }

static void set_up_child(void) {
  CHECK(hk_lock_init(repair), "there is memory");
  set_up(2);
  hk_lock_acquire(hk_lock_space); /* for a thread that the child does not have */
  checker_wipe_last_mapping();
}

static void add_repaired(void) {
  hk_lock_acquire(hk_lock_space);
  CHECK(repairs == 1, "what the lock guards is repaired before");
  guarded++;
  hk_lock_release(hk_lock_space);
}

/* A thread waits for the repair without a lock. */
static void wait_and_see(void) {
  hk_lock_wait_for_repair();
  CHECK(repairs == 1, "who waits for the repair sees it");
}

static void expect_repair(void) { CHECK(repairs == 1, "the repair runs once"); }

static void expect_repaired(void) {
  expect_sum();
  CHECK(repairs == 1, "the repair runs once");
}

const scenario_t scenarios[] = {
    {.name = "lock_two_threads", .setup = set_up_two, .thread = {add, add}, .finish = expect_sum},
    {.name = "lock_two_threads_twice", .setup = set_up_four, .thread = {add_twice, add_twice}, .finish = expect_sum},
    {.name = "lock_three_threads",
     .setup = set_up_three,
     .thread = {add, add, add},
     .finish = expect_sum,
     .preemptions_in_short = 4},
    {.name = "lock_child_of_fork",
     .setup = set_up_child,
     .thread = {add_repaired, add_repaired},
     .finish = expect_repaired,
     .preemptions = 4},
    {.name = "lock_child_waits",
     .setup = set_up_child,
     .thread = {wait_and_see, wait_and_see},
     .finish = expect_repair},
    {.name = "lock_child_waits_and_adds",
     .setup = set_up_child,
     .thread = {wait_and_see, add_repaired},
     .finish = expect_repair,
     .preemptions = 4},
    {.name = NULL},
};
