/* heap/attachment.c: a thread sleeps now and then, and other threads try to take its heap. */
#include "heap/attachment.h"

#include "model_check/checker.h"

static hk_attachment_t attachment;
static hk_heap_variable_t variable;
static hk_heap_variable_t other_variable;
static _Atomic(bool) is_busy, is_always_busy;

/* The kernel's record of the thread. The kernel reads and changes it under a lock. */
static _Atomic(unsigned) asleep;

/* The thread that has the heap writes here: two at a time are a data race. */
static unsigned used;

static char heap_record, no_heap_record, part_record;
#define HEAP ((hk_heap_t *)(void *)&heap_record)
#define NO_HEAP ((hk_heap_t *)(void *)&no_heap_record)
#define PART ((hk_heap_t *)(void *)&part_record)

/* The thread's stack, which is unmapped when the thread has ended. */
static unsigned stack;

/* Replaces the machine's function, by which no thread sleeps. */
bool hk_os_thread_sleeps(const hk_os_thread_t *thread) {
  return thread->number == 1 && hk_load_in_turn(&asleep) != 0 && stack == 0;
}

static void set_up(void) {
  hk_store_relaxed(&is_always_busy, true);
  hk_store_relaxed(&variable, HEAP);
  hk_attachment_show(&attachment, &variable, 0);
  checker_name(&attachment.word, "word");
  checker_name(&variable, "variable");
  checker_name(&asleep, "asleep");
  checker_name(&is_busy, "is_busy");
}

/* ---- The thread, as heap/thread.c has it. */

static void sleep_once(void) {
  (void)hk_exchange_acq_rel(&asleep, 1);
  (void)hk_exchange_acq_rel(&asleep, 0);
}

static void use_on_fast_path(void) {
  if (hk_load_relaxed(&variable) == HEAP) used++;
}

static bool has_heap(void) {
  if (hk_load_relaxed(&variable) == HEAP) return true;
  if (!hk_attachment_take_up(&attachment, &variable)) return false;
  hk_store_relaxed(&variable, HEAP);
  return true;
}

static void use_on_slow_path(void) {
  if (!has_heap()) return;
  hk_store_relaxed(&is_busy, true);
  used++;
  hk_store_relaxed(&is_busy, false);
}

static void work_and_sleep(void) {
  use_on_fast_path();
  sleep_once();
  use_on_fast_path();
  use_on_slow_path();
  use_on_fast_path();
}

static void sleep_twice_and_work(void) {
  sleep_once();
  sleep_once();
  use_on_slow_path();
}

static void end(void) {
  if (has_heap()) {
    hk_store_relaxed(&is_busy, true);
    hk_attachment_hide(&attachment);
    used++;
    *(hk_heap_t **)(void *)&variable = NO_HEAP;
  }
  stack++;
}

/* The thread ends, and its variable and its stack with it. */
static void sleep_and_end(void) {
  use_on_fast_path();
  sleep_once();
  end();
}

/* The examiner may see the second sleep after the thread has taken its heap up. */
static void take_up_and_end(void) {
  sleep_once();
  use_on_slow_path();
  sleep_once();
  end();
}

/* Switches to a part, as heap/part.c does, and sleeps meanwhile. The heap that the switch has taken out of the variable
 * stays the thread's. */
static void sleep_in_a_switch(void) {
  hk_heap_t *before = hk_exchange_acquire(&variable, PART);
  if (before == HEAP) used++;
  sleep_once();
  if (before == HEAP) used++;
  hk_store_relaxed(&variable, before);
  use_on_fast_path();
  use_on_slow_path();
}

/* Switches to a part, and back to its own heap for a request inside, as heap/part.c does. */
static void use_on_base_in_a_switch(void) {
  hk_heap_t *base = hk_exchange_acquire(&variable, PART);
  hk_store_relaxed(&variable, base);
  use_on_slow_path();
  base = hk_exchange_acquire(&variable, PART);
  hk_store_relaxed(&variable, base);
  sleep_once();
  use_on_fast_path();
  use_on_slow_path();
}

/* ---- The other threads. */

static void take(void) {
  if (hk_attachment_take(&attachment, HEAP, NO_HEAP, &is_busy)) used++;
}

/* Takes the heap for the calling thread, which has it from then on. */
static void take_and_show(void) {
  if (!hk_attachment_take(&attachment, HEAP, NO_HEAP, &is_busy)) return;
  hk_store_relaxed(&other_variable, HEAP);
  hk_attachment_show(&attachment, &other_variable, 0);
  used++;
}

/* Examines whichever thread has the heap, and never takes it. */
static void examine(void) {
  if (hk_attachment_take(&attachment, HEAP, NO_HEAP, &is_always_busy)) used++;
}

static void take_twice(void) {
  take();
  take();
}

static void loosen(void) { hk_attachment_loosen(&attachment, HEAP, NO_HEAP); }

/* The attachment's state agrees with the thread's variable. */
static void expect_known(void) {
  hk_attachment_state_t state = hk_attachment_state(&attachment);
  CHECK(state != hk_attachment_examined && state != hk_attachment_ended && state != hk_attachment_taken_up,
        "an examination ends");
  if (state == hk_attachment_firm) CHECK(hk_load_relaxed(&variable) == HEAP, "a thread that has a heap finds it");
  if (state == hk_attachment_loose)
    CHECK(hk_load_relaxed(&variable) == NO_HEAP, "a heap is loose until it is taken up");
}

/* The heap is the first thread's, or that of the one that took it. */
static void expect_shown(void) {
  CHECK(hk_attachment_state(&attachment) != hk_attachment_examined, "an examination ends");
}

static void sleep_and_work(void) {
  sleep_once();
  use_on_slow_path();
}

static void expect_ended(void) {
  CHECK(hk_attachment_state(&attachment) == hk_attachment_none, "a thread that has ended has no heap");
}

const scenario_t scenarios[] = {
    {.name = "sleep_and_take", .setup = set_up, .thread = {work_and_sleep, take}, .finish = expect_known},
    {.name = "sleep_and_take_twice",
     .setup = set_up,
     .thread = {sleep_twice_and_work, take_twice},
     .finish = expect_known},
    {.name = "sleep_and_two_take",
     .setup = set_up,
     .thread = {work_and_sleep, take, take},
     .finish = expect_known,
     .preemptions = 3,
     .preemptions_in_short = 3},
    {.name = "sleep_and_change_hands",
     .setup = set_up,
     .thread = {sleep_and_work, take_and_show, examine},
     .finish = expect_shown,
     .preemptions = 4,
     .preemptions_in_short = 4},
    {.name = "switch_and_take", .setup = set_up, .thread = {sleep_in_a_switch, take}, .finish = expect_known},
    {.name = "end_and_take", .setup = set_up, .thread = {sleep_and_end, take}, .finish = expect_ended},
    {.name = "take_up_and_end", .setup = set_up, .thread = {take_up_and_end, take}, .finish = expect_ended},
    {.name = "end_and_two_take",
     .setup = set_up,
     .thread = {sleep_and_end, take, take},
     .finish = expect_ended,
     .preemptions = 3,
     .preemptions_in_short = 3},
    {.name = "sleep_and_loosen", .setup = set_up, .thread = {work_and_sleep, loosen}, .finish = expect_known},
    {.name = "switch_and_loosen", .setup = set_up, .thread = {sleep_in_a_switch, loosen}, .finish = expect_known},
    {.name = "end_and_loosen", .setup = set_up, .thread = {sleep_and_end, loosen}, .finish = expect_ended},
    {.name = "switch_base_and_loosen",
     .setup = set_up,
     .thread = {use_on_base_in_a_switch, take, loosen},
     .finish = expect_known,
     .preemptions = 3,
     .preemptions_in_short = 3},
    {.name = "take_and_loosen",
     .setup = set_up,
     .thread = {work_and_sleep, take, loosen},
     .finish = expect_known,
     .preemptions = 3,
     .preemptions_in_short = 3},
    {.name = NULL},
};
