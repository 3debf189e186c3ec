/* serve/serve.c - L10. The serve thread: shows the statistics while the program runs (api/instruments.h).
 *
 * The thread exists only while it is needed: for a signal of the user's choice, for a file that is written at an
 * interval, or for the command line tool, which sends a signal and then connects to the process's socket. A secure-exec
 * program has no serve thread.
 *
 * It is a bare thread (os/os.h), because a signal handler cannot start another kind. It has no heap, and ends after a
 * minute without a request.
 *
 * A thread that ends because its rights differ from the first thread's sends no signal for a successor: that would end
 * a wait of the program early. The program's next slow path starts it (hk_serve_consider).
 *
 * A signal handler changes the word `calls`, wakes the thread that sleeps on it, and starts the thread if there is
 * none. The thread reads the word before it looks for work, and once more after it has given up its claim. So no
 * request is lost that came too late for the thread and found the claim taken.
 */

#include <stdbool.h>
#include <stdint.h>

#include "api/instruments.h"
#include "api/lifecycle.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/detach.h"
#include "heap/thread.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/process.h"
#include "os/rights.h"
#include "os/sandbox.h"
#include "policy/option.h"
#include "report/report_out.h"
#include "report/stats_file.h"
#include "serve/server.h"

/* Chosen: while clients may connect, the thread looks this often for signals, and for a socket that the program has
 * closed. */
#define LISTEN_MS 200
/* Chosen: the thread ends after this time without a client. */
#define QUIET_MS 60000
/* Chosen: with more heaps some thread soon comes to a slow path by itself, and a look at all threads takes long. */
#define FEW_HEAPS 64

_Atomic(bool) hk_serve_is_wanted;

/* Mark of the process that may have the thread. A child of vfork or _Fork may not: its memory is its parent's, or in an
 * unknown state. */
static _Atomic(uint64_t) owner_process;

/* Changes with each request. */
static _Atomic(uint32_t) calls;
static _Atomic(bool) is_listening_wanted;
static _Atomic(bool) is_report_wanted;

/* Written by the thread that holds the claim, before it starts the serve thread. */
static bool is_of_first_thread;

/* Set when a serve thread that another thread started never had the rights of the first thread. From then on only a
 * request of the first thread starts one. */
static _Atomic(bool) is_left_to_first_thread;

/* Belongs to the serve thread. */
static struct {
  uint64_t heard_ms; /* time of the last connected client, or of the tool's last signal */
  uint64_t file_ms;  /* time at which the file is due, for the next thread too; 0: not known yet */
  hk_rights_watch_t rights;
} serve;

static void run(void);

/* ---- Requests, also from signal handlers. */

static void start(void) {
  if (!hk_os_bare_thread_claim()) return;
  is_of_first_thread = hk_rights_is_first_thread();
  if (!hk_os_bare_thread_start("hakmem-serve", run)) hk_os_bare_thread_give_up();
}

static void wake(void) {
  (void)atomic_fetch_add_explicit(&calls, 1, memory_order_acq_rel);
  hk_os_wake_one((const uint32_t *)&calls);
}

static void call(_Atomic(bool) *flag) {
  if (!hk_sandbox_permits_threads() || hk_load_relaxed(&owner_process) != hk_process_mark()) return;
  hk_store_relaxed(flag, true);
  wake();
  start();
}

void hk_serve_end_soon(void) { wake(); }

/* Without a system call, so that requests of other threads may look often. A number of the C library's is enough:
 * `start` looks again. */
static bool is_left_to_another(void) {
  return hk_load_relaxed(&is_left_to_first_thread) &&
         hk_os_thread_self().number != (uint32_t)hk_load_relaxed(&owner_process);
}

/* A child of vfork leaves the flag to its parent, whose memory it shares. */
void hk_serve_consider_slow(void) {
  if (!hk_sandbox_permits_threads() || is_left_to_another() || hk_load_relaxed(&owner_process) != hk_process_mark())
    return;
  hk_store_relaxed(&hk_serve_is_wanted, false);
  start();
}

static void on_attach(void) { call(&is_listening_wanted); }
static void on_report(void) { call(&is_report_wanted); }

/* ---- The thread's work. */

static bool is_file_renewed(void) { return hk_option.stats_interval != 0 && hk_stats_file_is_wanted(); }

static void report(void) {
  if (!hk_exchange_acq_rel(&is_report_wanted, false)) return;
  if (*hk_option.stats_file == '\0') {
    hk_report_write();
  } else if (hk_stats_file_is_wanted()) {
    hk_report_write_file(false);
  }
}

static void renew_file(uint64_t now_ms) {
  if (!is_file_renewed() || now_ms < serve.file_ms) return;
  hk_report_write_file(false);
  serve.file_ms = now_ms + hk_option.stats_interval * 1000;
}

static void begin_to_listen(uint64_t now_ms) {
  if (!hk_exchange_acq_rel(&is_listening_wanted, false)) return;
  serve.heard_ms = now_ms;
  (void)hk_server_open();
}

/* ---- Whether the thread may go on. */

static hk_rights_t look_at_rights(void) { return hk_rights_watch(&serve.rights, hk_os_coarse_ms()); }

/* Checks the rights again before a file is written: a file that is made with old rights cannot be replaced with new
 * ones. */
static hk_rights_t look_before_visit(void) {
  uint64_t now_ms = hk_os_coarse_ms();
  bool is_file_due = is_file_renewed() && now_ms >= serve.file_ms;
  if (is_file_due || hk_load_relaxed(&is_report_wanted)) hk_rights_watch_soon(&serve.rights, now_ms);
  return look_at_rights();
}

static bool may_go_on(void) { return hk_rights_may_stay(look_at_rights()); }

/* Limits a wait to the time of the next check. */
static uint64_t until_next_look(uint64_t now_ms, uint64_t wait_ms) {
  return hk_smaller(wait_ms, hk_subtract_to_zero(serve.rights.due_ms, now_ms));
}

/* ---- The thread's loop. */

static void answer(uint64_t now_ms) {
  if (!hk_server_visit(until_next_look(now_ms, LISTEN_MS), may_go_on)) {
    hk_server_close();
    (void)hk_server_open();
  }
  if (hk_server_client_count() > 0) serve.heard_ms = now_ms;
  if (hk_subtract_to_zero(now_ms, serve.heard_ms) >= QUIET_MS || hk_server_is_over()) hk_server_close();
}

/* Does the work that is due, and waits for more. Returns false when no more can come. */
static bool visit(uint32_t seen) {
  uint64_t now_ms = hk_os_coarse_ms();
  if (!hk_sandbox_permits_threads()) {
    hk_server_close();
    return false;
  }
  report();
  renew_file(now_ms);
  begin_to_listen(now_ms);
  if (hk_server_is_open()) {
    answer(now_ms);
  } else if (is_file_renewed()) {
    uint64_t wait_ms = hk_subtract_to_zero(serve.file_ms, now_ms);
    return hk_os_wait_for((const uint32_t *)&calls, seen, until_next_look(now_ms, wait_ms));
  } else {
    return false;
  }
  return true;
}

/* In a child that a signal handler forked, waits until the interrupted code has repaired the locks. */
static void wait_for_repair(void) {
  while (hk_lock_needs_repair() && may_go_on()) {
    if (!hk_os_wait_for((const uint32_t *)&calls, hk_load_relaxed(&calls), LISTEN_MS)) return;
  }
}

/* Returns whether the program is to start a successor, with its current rights. Under a system call filter the kernel
 * might kill it for that. A thread that was started by the first thread and cannot tell its rights would have a
 * successor that cannot tell them either. A client that lost its connection sends its signal again. */
static bool is_successor_wanted(hk_rights_t verdict) {
  bool is_due = is_file_renewed() || hk_load_relaxed(&is_listening_wanted) || hk_load_relaxed(&is_report_wanted);
  return is_due && (verdict == hk_rights_differ || (verdict == hk_rights_unknown && !is_of_first_thread));
}

/* Lets the program's next slow path start the successor. A sleeping thread whose heap is detached comes to a slow path
 * with its next request. */
static void leave_to_requests(void) {
  hk_store_relaxed(&hk_serve_is_wanted, true);
  if (hk_heap_total() > FEW_HEAPS) return;
  (void)hk_detach_sleepers(&(hk_detach_terms_t){.now_ms = hk_os_coarse_ms(), .asleep_ms = 0, .least_slabs = 0});
}

/* Ends the thread, which may have rights that the program has given up. */
static void end_early(hk_rights_t verdict) {
  if (verdict == hk_rights_confined) hk_lifecycle_note_filter();
  bool is_wanted = is_successor_wanted(verdict);
  if (!serve.rights.was_same) hk_store_relaxed(&is_left_to_first_thread, true);
  hk_server_close();
  hk_os_bare_thread_give_up();
  if (is_wanted) leave_to_requests();
}

static void run(void) {
  hk_thread_go_without_heap();
  serve.rights = hk_rights_watch_begin(is_of_first_thread, false, hk_os_coarse_ms());
  wait_for_repair();
  if (serve.file_ms == 0) serve.file_ms = hk_os_coarse_ms() + hk_option.stats_interval * 1000;
  uint32_t seen;
  do {
    bool goes_on = true;
    while (goes_on) {
      hk_rights_t verdict = look_before_visit();
      if (!hk_rights_may_stay(verdict)) {
        end_early(verdict);
        return;
      }
      seen = hk_load_acquire(&calls);
      goes_on = visit(seen);
    }
    hk_os_bare_thread_give_up();
  } while (hk_load_acquire(&calls) != seen && hk_sandbox_permits_threads() && hk_os_bare_thread_claim());
}

/* ---- Start of a process, and forks. */

static void begin(void) {
  hk_store_relaxed(&owner_process, hk_process_mark());
  if (is_file_renewed() && hk_sandbox_permits_threads()) start();
}

/* The parent keeps the thread and its requests. */
static void begin_child(void) {
  hk_server_forget();
  serve.file_ms = 0;
  hk_store_relaxed(&hk_serve_is_wanted, false);
  hk_store_relaxed(&is_left_to_first_thread, false);
  hk_store_relaxed(&is_listening_wanted, false);
  hk_store_relaxed(&is_report_wanted, false);
  begin();
}

/* Cold, as its caller runs in every program (override/first_functions.txt). */
static HK_COLD const char *why_not(hk_os_signal_t result) {
  switch (result) {
    case hk_os_signal_in_use:
      return "the program already uses it";
    case hk_os_signal_unsafe:
      return "a system call filter may kill for it (see HAKMEM_SANDBOX)";
    case hk_os_signal_unfit:
      return "a fault, the system or the C library uses it";
    default:
      return "the system refuses it";
  }
}

/* Prints no warning when the default is in use, because the user has not chosen it. Returns whether it is taken. */
static bool take_tool_signal(void) {
  if (hk_option.attach_signal == 0) return false;
  hk_os_signal_t result = hk_os_signal_take((unsigned)hk_option.attach_signal, true, on_attach);
  if (result == hk_os_signal_unfit)
    hk_option_warn_unused("HAKMEM_ATTACH_SIGNAL", hk_option.attach_signal, why_not(result));
  return result == hk_os_signal_taken;
}

static void take_report_signal(void) {
  if (hk_option.stats_signal == 0) return;
  hk_os_signal_t result = hk_os_signal_take((unsigned)hk_option.stats_signal, false, on_report);
  if (result != hk_os_signal_taken)
    hk_option_warn_unused("HAKMEM_STATS_SIGNAL", hk_option.stats_signal, why_not(result));
}

void hk_serve_prepare(void) {
  hk_lifecycle_prepare();
  hk_stats_file_check();
  if (hk_os_is_secure_exec()) return;
  if (take_tool_signal() && hk_option.stats_signal == hk_option.attach_signal) {
    hk_option_warn_unused("HAKMEM_STATS_SIGNAL", hk_option.stats_signal, "it is that of HAKMEM_ATTACH_SIGNAL");
  } else {
    take_report_signal();
  }
  hk_os_at_fork(begin_child);
  begin();
}
