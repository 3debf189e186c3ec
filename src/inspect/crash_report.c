/* inspect/crash_report.c - L8. HAKMEM_CRASH_REPORT: a report on stderr when the program crashes (api/instruments.h).
 *
 * The report runs in a signal handler. The handler may have interrupted the allocator anywhere, with its locks held. So
 * the report takes no lock and allocates nothing. It writes line by line: a line stays written when the next one fails.
 */
#include <signal.h>

#include "api/instruments.h"
#include "inspect/call_chain.h"
#include "inspect/describe.h"
#include "os/alternate_stack.h"
#include "os/crash_signal.h"
#include "os/os.h"
#include "os/own_stack.h"
#include "os/peek.h"
#include "os/sandbox.h"
#include "os/signal_action.h"
#include "policy/option.h"

/* Chosen. */
#define CALLS_MAX 32
#define REGISTER_LINES_MAX 8
/* Chosen: how far from the stack pointer the access may lie that finds the stack full. */
#define STACK_STEP_MAX HK_MIB

typedef struct {
  char text[HK_DESCRIBE_BYTES + 64];
  hk_format_t format;
} line_t;

static hk_format_t *begin(line_t *line) {
  hk_format_init(&line->format, line->text, sizeof line->text - 1); /* the last byte is for the newline */
  hk_format_text(&line->format, "hakmem:   ");
  return &line->format;
}

static void finish(line_t *line) {
  line->text[line->format.length] = '\n';
  hk_os_write_stderr(line->text, line->format.length + 1);
}

/* ---- The cause. */

static const char *signal_name(int number) {
  return number == SIGSEGV ? "SIGSEGV" : number == SIGBUS ? "SIGBUS" : "SIGABRT";
}

static const char *reason_text(const hk_crash_t *crash) {
  if (crash->number == SIGSEGV) {
    if (crash->code == SEGV_MAPERR) return ", where nothing is mapped";
    if (crash->code == SEGV_ACCERR) return ", which the page protection forbids";
  } else {
    if (crash->code == BUS_ADRERR) return ", past the end of a mapped file, or memory has run out";
    if (crash->code == BUS_ADRALN) return ", which is not aligned";
  }
  return "";
}

static void say_cause(hk_format_t *out, const hk_crash_t *crash) {
  if (crash->has_address) {
    hk_format_print(out, "%s %p%s", hk_describe_access(crash->access), crash->address, reason_text(crash));
  } else if (crash->is_fault) {
    hk_format_text(out, "an address that no program can have, or a forbidden instruction");
  } else if (crash->sender == hk_os_process_id()) {
    hk_format_text(out, "sent by the program itself");
  } else {
    hk_format_print(out, "sent by process %u", crash->sender);
  }
}

static void say_what_happened(const hk_crash_t *crash) {
  line_t line;
  hk_format_t *out = &line.format;
  hk_format_init(out, line.text, sizeof line.text - 1);
  hk_format_print(out, "hakmem: crash: %s in thread %u (", signal_name(crash->number), crash->thread);
  hk_format_name(out, crash->thread_name);
  hk_format_print(out, ") of process %u: ", hk_os_process_id());
  say_cause(out, crash);
  hk_format_text(out, " (see: hakmem help crash)");
  finish(&line);
}

/* A function pushes below the stack pointer, or moves it first and then writes anywhere in its new frame. In the second
 * case the memory at the stack pointer is missing too; past the end of a stack that has room it is there. */
static bool is_stack_full(const hk_crash_t *crash) {
  void *word;
  if (crash->number != SIGSEGV) return false;
  if (crash->address < crash->stack_pointer) return crash->stack_pointer - crash->address < STACK_STEP_MAX;
  bool is_in_frame = crash->address - crash->stack_pointer < STACK_STEP_MAX;
  return is_in_frame && !hk_os_peek((const void *)crash->stack_pointer, &word);
}

static void say_address(const hk_crash_t *crash) {
  if (!crash->has_address) return;
  line_t line;
  hk_describe(begin(&line), crash->address);
  finish(&line);
  if (!is_stack_full(crash)) return;
  hk_format_print(begin(&line), "the stack is full: the stack pointer is %p", crash->stack_pointer);
  finish(&line);
}

/* ---- Registers. */

static bool is_described(const hk_crash_t *crash, int index) {
  uintptr_t value = crash->registers[index];
  if (crash->has_address && value == crash->address) return true;
  for (int i = 0; i < index; i++) {
    if (crash->registers[i] == value) return true;
  }
  return false;
}

static void say_registers(const hk_crash_t *crash) {
  unsigned lines = 0;
  for (int i = 0; i < HK_CRASH_REGISTERS && lines < REGISTER_LINES_MAX; i++) {
    uintptr_t value = crash->registers[i];
    if (is_described(crash, i) || hk_address_class_of(value).kind == hk_address_foreign) continue;
    line_t line;
    hk_format_print(begin(&line), "%s: ", hk_crash_register_names[i]);
    hk_describe(&line.format, value);
    finish(&line);
    lines++;
  }
}

/* ---- Calls. */

static void say_calls(const hk_crash_t *crash) {
  uintptr_t addresses[CALLS_MAX];
  hk_call_place_t places[CALLS_MAX];
  unsigned count = hk_call_chain_of(crash, addresses, CALLS_MAX);
  hk_call_places_of(addresses, count, places);
  for (unsigned i = 0; i < count; i++) {
    if (i > 0 && !places[i].is_code) break; /* the address is no return address */
    line_t line;
    hk_format_t *out = begin(&line);
    hk_format_print(out, "#%u %p", (uint64_t)i, addresses[i]);
    if (!places[i].is_known) {
      hk_format_text(out, " (nothing is mapped there)");
    } else if (places[i].name[0] != '\0') {
      hk_call_place_print(out, &places[i]);
    }
    finish(&line);
  }
}

/* A report about an abort that fails ends the program by that signal, which hk_own_stack_run has blocked. */
static void let_abort_through(void) {
  uint64_t before;
  if (!hk_sandbox_may_kill()) (void)hk_signal_mask_change(SIG_UNBLOCK, HK_SIGNAL_MASK(SIGABRT), &before);
}

/* Writes the most certain facts first. */
static void say_all(void *context) {
  const hk_crash_t *crash = context;
  let_abort_through();
  say_what_happened(crash);
  say_calls(crash);
  say_address(crash);
  say_registers(crash);
}

/* The program's alternate stack may be as small as the kernel's frame and a few KiB. */
static void report(const hk_crash_t *crash) {
  if (!hk_own_stack_run(say_all, (void *)crash)) say_all((void *)crash);
}

/* ---- Install and thread hooks. */

void hk_crash_report_begin_thread(void) {
  if (hk_option.crash_report) hk_alternate_stack_begin();
}

void hk_crash_report_end_thread(void) {
  if (hk_option.crash_report) hk_alternate_stack_end();
}

void hk_crash_report_install(void) {
  if (!hk_option.crash_report) return;
  hk_crash_report_begin_thread();
  if (hk_sandbox_may_kill()) {
    hk_option_warn("HAKMEM_CRASH_REPORT", "1", "is not used",
                   "a system call filter may kill for a signal handler (see HAKMEM_SANDBOX)");
    return;
  }
  hk_crash_signal_catch(report);
}
