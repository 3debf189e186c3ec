/* os/crash_signal.c - L1. See crash_signal.h. Bare system calls alone: a handler may have interrupted the C library at
 * any point. */
#define _GNU_SOURCE 1

#include "os/crash_signal.h"

#include <linux/futex.h>
#include <signal.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* Signals that the report itself may cause. They stay unblocked. */
#define OF_THE_REPORT (HK_SIGNALS_OF_ITS_OWN | HK_SIGNAL_MASK(SIGABRT))

#define OUR_FLAGS (SA_SIGINFO | SA_ONSTACK | SA_NODEFER | HK_SIGNAL_RESTORER_FLAG)

/* Chosen: a thread that crashes while another one reports waits for the report for at most WAIT_STEPS steps of
 * WAIT_STEP_MS. */
#define WAIT_STEPS 50
#define WAIT_STEP_MS 100

static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
enum { signal_count = sizeof signals / sizeof signals[0] };

/* Written before the first handler can run, and constant from then on. */
static hk_signal_action_t previous[signal_count];
static bool is_caught[signal_count];
static void (*report_hook)(const hk_crash_t *crash);

/* The reporting process and thread, or 0. A child of fork ignores the claim of the other process. */
static _Atomic(uint64_t) reporter;
static uint32_t is_done;   /* a futex: 1 when the report is written or abandoned */
static siginfo_t reported; /* the reported signal; written by the reporter */

static void on_signal(int number, siginfo_t *info, void *context);

static int index_of(int number) {
  for (int i = 0; i < signal_count; i++) {
    if (signals[i] == number) return i;
  }
  return -1;
}

/* ---- After the report. ----------------------------------------------------------------------------------------- */

static bool is_ours(int number) {
  hk_signal_action_t now = {.handler = NULL};
  return hk_signal_action_exchange(number, NULL, &now) && now.handler == on_signal;
}

static void restore_all(void) {
  for (int i = 0; i < signal_count; i++) {
    if (is_caught[i] && is_ours(signals[i])) (void)hk_signal_action_exchange(signals[i], &previous[i], NULL);
  }
}

/* Does what the handler before ours would do. For a handler that the program installed after ours and that called
 * ours. */
static void act_as_previous(int number, siginfo_t *info, void *context) {
  const hk_signal_action_t *before = &previous[index_of(number)];
  if (hk_signal_action_is_function(before)) {
    before->handler(number, info, context); /* a handler without SA_SIGINFO reads the first argument alone */
    return;
  }
  hk_signal_action_t by_default = {.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  (void)hk_signal_action_exchange(number, &by_default, NULL);
  hk_signal_send_again(number, info);
}

static void hand_over(int number, siginfo_t *info, void *context) {
  if (!is_ours(number)) {
    restore_all();
    act_as_previous(number, info, context);
  } else {
    restore_all();
    hk_signal_send_again(number, info);
  }
}

static void finish_report(void) {
  __atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
  (void)hk_syscall6(SYS_futex, (long)&is_done, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static void wait_for_report(void) {
  for (int i = 0; i < WAIT_STEPS && __atomic_load_n(&is_done, __ATOMIC_ACQUIRE) == 0; i++) {
    hk_os_wait_for(&is_done, 0, WAIT_STEP_MS);
  }
}

typedef enum { is_first, is_again, is_in_report, is_of_another } turn_t;

static turn_t take_turn(void) {
  uint64_t process = hk_os_process_id();
  uint64_t me = process << 32 | (uint64_t)hk_syscall2(SYS_gettid, 0, 0);
  uint64_t claim = hk_load_acquire(&reporter);
  for (;;) {
    if (claim == me) return __atomic_load_n(&is_done, __ATOMIC_RELAXED) != 0 ? is_again : is_in_report;
    if (claim != 0 && claim >> 32 == process) return is_of_another;
    if (hk_compare_exchange_weak_acq_rel(&reporter, &claim, me)) break;
  }
  __atomic_store_n(&is_done, 0, __ATOMIC_RELAXED);
  return is_first;
}

static void report_first(int number, siginfo_t *info, void *context) {
  hk_crash_t crash;
  reported = *info;
  hk_crash_read(&crash, number, info, context);
  report_hook(&crash);
  finish_report();
}

static void on_signal(int number, siginfo_t *info, void *context) {
  static const char gave_up[] = "hakmem:   the rest of this report failed\n";
  switch (take_turn()) {
    case is_first:
      report_first(number, info, context);
      break;
    case is_in_report: /* the program ends by the reported signal, not by one that the report caused */
      hk_os_write_stderr(gave_up, sizeof gave_up - 1);
      finish_report();
      restore_all();
      hk_signal_send_again(reported.si_signo, &reported);
      return;
    case is_of_another:
      wait_for_report();
      break;
    case is_again:
      break;
  }
  hand_over(number, info, context);
}

/* Installs the handler for one signal. An ignored signal stays ignored, for this program and for those that it
 * starts. */
static void catch_one(int i) {
  hk_signal_action_t ours = {
      .handler = on_signal, .flags = OUR_FLAGS, .restorer = hk_signal_return, .mask = ~OF_THE_REPORT};
  if (!hk_signal_action_exchange(signals[i], NULL, &previous[i])) return;
  if ((uintptr_t)previous[i].handler == (uintptr_t)SIG_IGN) return;
  is_caught[i] = true;
  is_caught[i] = hk_signal_action_exchange(signals[i], &ours, NULL);
}

void hk_crash_signal_catch(void (*report)(const hk_crash_t *crash)) {
  if (report_hook != NULL) return;
  report_hook = report;
  for (int i = 0; i < signal_count; i++) catch_one(i);
}
