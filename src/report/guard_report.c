/* report/guard_report.c - L9. See guard_report.h and api/instruments.h.
 *
 * A report may run in a signal handler, on a small stack, anywhere in the program. So it allocates nothing, takes no
 * lock of the allocator and works in memory of its own. One thread reports at a time.
 */
#include "report/guard_report.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "api/guarded.h"
#include "api/instruments.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/format.h"
#include "base/hash.h"
#include "inspect/call_chain.h"
#include "inspect/describe.h"
#include "os/os.h"
#include "os/own_stack.h"
#include "os/process.h"
#include "policy/option.h"
#include "report/output_file.h"
#include "report/report_form.h"
#include "unwind/site.h"

/* Chosen: calls of each stack. */
#define CALLS_MAX 32
#define TEXT_BYTES (64 * HK_KIB)
/* In JSON a byte of a path takes up to six: \u00NN. */
static_assert((size_t)3 * CALLS_MAX * (6 * HK_CALL_PLACE_NAME_BYTES + 80) + HK_KIB <= TEXT_BYTES,
              "three stacks have room");

/* Chosen: how long a thread waits for another one's report. */
#define WAIT_STEPS 200
#define WAIT_STEP_MS 10

static hk_output_file_t file = {.variable = "HAKMEM_GUARD_FILE", .value = &hk_option.guard_file};

/* The mark of the process of the thread that reports; 0: none does. A child of fork ignores another process's. */
static _Atomic(uint64_t) reporter;

typedef struct {
  unsigned count;
  uintptr_t call[CALLS_MAX]; /* addresses in the calls, the innermost first */
  hk_call_place_t place[CALLS_MAX];
} calls_t;

/* The reporter's. */
static calls_t stacks[3];
static char text_buffer[TEXT_BYTES];

void hk_guard_report_check(void) { hk_output_file_check(&file, NULL); }

/* ---- The facts. */

static const char *kind_of(const hk_guard_event_t *event) {
  bool is_freed = event->block.state == hk_guard_freed;
  bool is_start = event->address == event->block.start;
  switch (event->by) {
    case hk_guard_by_free:
      return is_freed && is_start ? "double-free" : "invalid-free";
    case hk_guard_by_realloc:
    case hk_guard_by_usable_size:
      return is_freed && is_start ? "use-after-free" : "invalid-pointer";
    default:
      if (is_freed) return "use-after-free";
      return event->address < event->block.start ? "underflow" : "overflow";
  }
}

static const char *act_of(const hk_guard_event_t *event) {
  static const char *const of_access[] = {[hk_access_unknown] = "access",
                                          [hk_access_read] = "read",
                                          [hk_access_write] = "write",
                                          [hk_access_execute] = "jump"};
  static const char *const of_call[] = {[hk_guard_by_padding] = "write",
                                        [hk_guard_by_free] = "free",
                                        [hk_guard_by_realloc] = "realloc",
                                        [hk_guard_by_usable_size] = "malloc_usable_size"};
  return event->by == hk_guard_by_access ? of_access[event->crash->access] : of_call[event->by];
}

static void take_stack(calls_t *stack, hk_site_t *site) {
  uintptr_t frames[HK_SITE_FRAMES_MAX];
  stack->count = site != NULL ? (unsigned)hk_smaller(hk_site_frames(site, frames), CALLS_MAX) : 0;
  for (unsigned i = 0; i < stack->count; i++) stack->call[i] = frames[i] - 1;
  hk_call_places_of(stack->call, stack->count, stack->place);
}

/* The addresses behind the first one are return addresses. */
static void take_stack_of_crash(calls_t *stack, const hk_crash_t *crash) {
  stack->count = hk_call_chain_of(crash, stack->call, CALLS_MAX);
  for (unsigned i = 1; i < stack->count; i++) stack->call[i]--;
  hk_call_places_of(stack->call, stack->count, stack->place);
  unsigned known = 1;
  while (known < stack->count && stack->place[known].is_code) known++;
  stack->count = (unsigned)hk_smaller(stack->count, known);
}

static void take_stack_of_deed(const hk_guard_event_t *event) {
  if (event->crash != NULL) {
    take_stack_of_crash(&stacks[0], event->crash);
  } else {
    take_stack(&stacks[0], event->deed.site);
  }
}

static void take_stacks_of_block(const hk_guard_event_t *event) {
  take_stack(&stacks[1], event->block.freed.site);
  take_stack(&stacks[2], event->block.allocated.site);
}

/* Chosen: the innermost calls that tell one place of an error from another. One call would be the C library's, as in
 * memcpy; all would make each depth of a recursion a place. */
#define CALLS_OF_PLACE 4

static uint64_t place_of(const calls_t *stack) {
  uint64_t place = 0;
  for (unsigned i = 0; i < stack->count && i < CALLS_OF_PLACE; i++) place = hk_hash_add(place, stack->call[i]);
  return place;
}

static uint64_t age_ms(const hk_guard_event_t *event, const hk_guard_deed_t *deed) {
  return hk_subtract_to_zero(event->deed.ms, deed->ms);
}

/* ---- Text. */

static void say_block(hk_format_t *out, const hk_guard_event_t *event) {
  const hk_guard_view_t *block = &event->block;
  const char *state = block->state == hk_guard_freed ? "freed" : "live";
  hk_describe_distance(out, event->address, block->start, block->bytes);
  hk_format_print(out, " a %s block of %n at %p", state, (uint64_t)block->bytes, block->start);
}

static void say_what(hk_format_t *out, const hk_guard_event_t *event) {
  hk_format_print(out, "hakmem: %s: ", kind_of(event));
  if (event->by == hk_guard_by_padding) {
    hk_format_print(out, "a write to %p, found at the block's free: ", event->address);
  } else if (event->by == hk_guard_by_access) {
    hk_format_print(out, "%s %p, ", hk_describe_access(event->crash->access), event->address);
  } else {
    hk_format_print(out, "%s of %p, ", act_of(event), event->address);
  }
  say_block(out, event);
  hk_format_print(out, " (see: hakmem help %s)\n", kind_of(event));
}

static void say_calls(hk_format_t *out, const calls_t *stack) {
  for (unsigned i = 0; i < stack->count; i++) {
    hk_format_print(out, "hakmem:   #%u %p", (uint64_t)i, stack->call[i]);
    if (stack->place[i].is_known && stack->place[i].name[0] != '\0') {
      hk_call_place_print(out, &stack->place[i]);
    }
    hk_format_text(out, "\n");
  }
  if (stack->count == 0) hk_format_text(out, "hakmem:   the stack is unknown\n");
}

static void say_deed(hk_format_t *out, const hk_guard_event_t *event, const char *deed_text,
                     const hk_guard_deed_t *deed, const calls_t *stack) {
  hk_format_print(out, "hakmem:   %s by thread %u, %u ms ago:\n", deed_text, deed->thread, age_ms(event, deed));
  say_calls(out, stack);
}

static void say_all(hk_format_t *out, const hk_guard_event_t *event) {
  say_what(out, event);
  hk_format_print(out, "hakmem:   %s by thread %u", event->by == hk_guard_by_padding ? "found" : "touched",
                  event->deed.thread);
  if (event->crash != NULL) {
    hk_format_text(out, " (");
    hk_format_name(out, event->crash->thread_name);
    hk_format_text(out, ")");
  }
  hk_format_print(out, " of process %u:\n", hk_os_process_id());
  say_calls(out, &stacks[0]);
  if (event->block.state == hk_guard_freed) say_deed(out, event, "freed", &event->block.freed, &stacks[1]);
  say_deed(out, event, "allocated", &event->block.allocated, &stacks[2]);
}

/* ---- JSON. */

static void put_calls(hk_format_t *out, const calls_t *stack) {
  hk_format_text(out, "\"frames\":[");
  for (unsigned i = 0; i < stack->count; i++) {
    const hk_call_place_t *place = &stack->place[i];
    hk_format_print(out, "%s\n{\"address\":\"%p\",\"module\":", i > 0 ? "," : "", stack->call[i]);
    if (place->is_known && place->name[0] != '\0') {
      hk_form_json_quote(out, place->name);
      hk_format_print(out, ",\"offset\":\"%p\"}", place->offset);
    } else {
      hk_format_text(out, "null,\"offset\":null}");
    }
  }
  hk_format_text(out, "]");
}

static void put_deed(hk_format_t *out, const hk_guard_event_t *event, const hk_guard_deed_t *deed,
                     const calls_t *stack) {
  hk_format_print(out, "{\"thread\":%u,\"age_ms\":%u,", deed->thread, age_ms(event, deed));
  put_calls(out, stack);
  hk_format_text(out, "}");
}

static void put_offset(hk_format_t *out, const hk_guard_event_t *event) {
  uintptr_t start = event->block.start;
  bool is_before = event->address < start;
  hk_format_print(out, ",\"offset\":%s%u", is_before ? "-" : "",
                  (uint64_t)(is_before ? start - event->address : event->address - start));
}

static void put_all(hk_format_t *out, const hk_guard_event_t *event) {
  const hk_guard_view_t *block = &event->block;
  hk_format_print(out, "{\"hakmem_guard\":1,\"kind\":\"%s\",\"act\":\"%s\",\"address\":\"%p\"", kind_of(event),
                  act_of(event), event->address);
  hk_format_print(out, ",\"time_ms\":%u,\"process\":%u", hk_os_unix_ms(), hk_os_process_id());
  hk_format_print(out, ",\"block\":{\"address\":\"%p\",\"bytes\":%u,\"state\":\"%s\"", block->start,
                  (uint64_t)block->bytes, block->state == hk_guard_freed ? "freed" : "live");
  put_offset(out, event);
  hk_format_print(out, "},\n\"touched\":{\"thread\":%u,\"name\":", event->deed.thread);
  hk_form_json_quote(out, event->crash != NULL ? event->crash->thread_name : "");
  hk_format_text(out, ",");
  put_calls(out, &stacks[0]);
  hk_format_text(out, "},\n\"freed\":");
  if (block->state == hk_guard_freed) {
    put_deed(out, event, &block->freed, &stacks[1]);
  } else {
    hk_format_text(out, "null");
  }
  hk_format_text(out, ",\n\"allocated\":");
  put_deed(out, event, &block->allocated, &stacks[2]);
  hk_format_text(out, "}\n");
}

/* ---- The report. */

/* Returns false when another thread's report takes too long. */
static bool begin(void) {
  uint64_t own = hk_process_mark();
  for (unsigned step = 0; step < WAIT_STEPS; step++) {
    uint64_t claim = hk_load_relaxed(&reporter);
    if (claim != own && hk_compare_exchange_acquire(&reporter, &claim, own)) return true;
    if (!hk_os_pause(WAIT_STEP_MS)) hk_os_yield();
  }
  return false;
}

typedef struct {
  const hk_guard_event_t *event;
  bool is_quiet;
  bool is_new;
} task_t;

static void report(void *context) {
  task_t *task = context;
  const hk_guard_event_t *event = task->event;
  hk_format_t out;
  take_stack_of_deed(event);
  task->is_new = hk_guarded_note_place(place_of(&stacks[0]));
  if (!task->is_new) return;
  take_stacks_of_block(event);
  if (!task->is_quiet) {
    hk_format_init(&out, text_buffer, sizeof text_buffer);
    say_all(&out, event);
    hk_os_write_stderr(out.text, out.length);
  }
  if (hk_output_file_is_wanted(&file) && hk_output_file_is_own(&file)) {
    hk_format_init(&out, text_buffer, sizeof text_buffer);
    put_all(&out, event);
    hk_output_file_complain(&file, hk_output_file_write(&file, NULL, out.text, out.length));
  }
}

/* The thread may be on an alternate stack of 4 KiB, which the unwinder and the paths of files exceed. */
bool hk_guard_report(const hk_guard_event_t *event, bool is_quiet) {
  if (!begin()) return false;
  task_t task = {.event = event, .is_quiet = is_quiet};
  if (!hk_own_stack_run(report, &task)) report(&task);
  hk_store_release(&reporter, 0);
  return task.is_new;
}
