/* api/serve.c - L6. See serve.h.
 *
 * The handlers change a word, wake who sleeps on it, and start the thread if there is none. The thread reads the word before it
 * looks what is wanted; when it has ended it looks at the word once more: who came too late to be seen, and found that
 * there was a thread, is then not forgotten.
 */
#include "api/serve.h"

#include <stdbool.h>
#include <stdint.h>

#include "api/lifecycle.h"
#include "api/report_out.h"
#include "api/server.h"
#include "api/stats_file.h"
#include "base/arithmetic.h"
#include "base/atomic.h"
#include "heap/thread.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/rights.h"
#include "os/sandbox.h"
#include "policy/option.h"

/* Chosen. While somebody may connect, the thread looks this often for signals, and for a socket that the program has closed. */
#define LISTEN_MS 200
/* How often it looks whether the program has changed its rights. */
#define RIGHTS_MS 1000
/* Nobody has connected for so long: it ends. And sooner where nobody can tell what rights the program has. */
#define QUIET_MS 60000
#define BLIND_QUIET_MS 2000

/* The process that may have the thread: not a child of vfork or _Fork, whose memory is its parent's or in no known state. */
static _Atomic(uint64_t) home;

/* Changes when something is asked for. */
static _Atomic(uint32_t) calls;
static _Atomic(bool) is_listening_wanted;
static _Atomic(bool) is_report_wanted;

/* The thread's own. */
static struct {
  uint64_t heard_ms;  /* when somebody was connected last, or wanted to */
  uint64_t rights_ms; /* when to look at them again */
  uint64_t file_ms;   /* when the file is due */
  bool is_blind;
} serve;

static void run(void);

/* ---- What is asked for. From signal handlers too. */

static void start(void) {
  if (hk_os_bare_thread_claim() && !hk_os_bare_thread_start("hakmem-serve", run)) hk_os_bare_thread_give_up();
}

static void wake(void) {
  (void)atomic_fetch_add_explicit(&calls, 1, memory_order_acq_rel);
  hk_os_wake_one((const uint32_t *)&calls);
}

static void call(_Atomic(bool) *wish) {
  if (!hk_sandbox_permits_threads() || hk_load_relaxed(&home) != hk_os_process_id()) return;
  hk_store_relaxed(wish, true);
  wake();
  start();
}

void hk_serve_end_soon(void) { wake(); }

static void on_attach(void) { call(&is_listening_wanted); }
static void on_report(void) { call(&is_report_wanted); }

/* ---- What the thread does. */

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

static void answer(uint64_t now_ms) {
  if (!hk_server_visit(LISTEN_MS)) {
    hk_server_close();
    (void)hk_server_open();
  }
  if (hk_server_client_count() > 0) serve.heard_ms = now_ms;
  uint64_t quiet_ms = serve.is_blind ? BLIND_QUIET_MS : QUIET_MS;
  if (now_ms - serve.heard_ms >= quiet_ms || hk_server_is_over()) hk_server_close();
}

/* False when the thread has rights that the program has no longer. */
static bool check_rights(uint64_t now_ms) {
  if (now_ms < serve.rights_ms) return true;
  hk_rights_t rights = hk_rights_compare();
  serve.is_blind = rights == hk_rights_unknown;
  serve.rights_ms = now_ms + RIGHTS_MS;
  return rights != hk_rights_differ;
}

typedef enum { goes_on, is_done, has_wrong_rights } visit_t;

/* Does what is due, and waits for more. */
static visit_t visit(uint32_t seen) {
  uint64_t now_ms = hk_os_coarse_ms();
  if (!hk_sandbox_permits_threads()) {
    hk_server_close();
    return is_done;
  }
  if (!check_rights(now_ms)) return has_wrong_rights;
  report();
  renew_file(now_ms);
  begin_to_listen(now_ms);
  if (hk_server_is_open()) {
    answer(now_ms);
  } else if (is_file_renewed()) {
    hk_os_wait_for((const uint32_t *)&calls, seen, hk_smaller(serve.file_ms - now_ms, RIGHTS_MS));
  } else {
    return is_done;
  }
  return goes_on;
}

/* In a child of fork by a signal handler, what the handler interrupted goes first. */
static void wait_for_repair(void) {
  while (hk_lock_needs_repair()) hk_os_wait_for((const uint32_t *)&calls, hk_load_relaxed(&calls), LISTEN_MS);
}

/* Who had the program's rights before starts one that has those of now. */
static void hand_over(void) {
  if (hk_server_is_open()) hk_store_relaxed(&is_listening_wanted, true);
  bool is_wanted = is_file_renewed() || hk_load_relaxed(&is_listening_wanted) || hk_load_relaxed(&is_report_wanted);
  hk_server_close();
  hk_os_bare_thread_give_up();
  if (is_wanted) hk_os_signal_first_thread();
}

static void run(void) {
  hk_thread_go_without_heap();
  wait_for_repair();
  serve.rights_ms = 0;
  serve.file_ms = hk_os_coarse_ms() + hk_option.stats_interval * 1000;
  uint32_t seen;
  visit_t result;
  do {
    do {
      seen = hk_load_acquire(&calls);
      result = visit(seen);
    } while (result == goes_on);
    if (result == has_wrong_rights) {
      hand_over();
      return;
    }
    hk_os_bare_thread_give_up();
  } while (hk_load_acquire(&calls) != seen && hk_sandbox_permits_threads() && hk_os_bare_thread_claim());
}

/* ---- A process's start, and forks. */

static void begin(void) {
  hk_store_relaxed(&home, hk_os_process_id());
  if (is_file_renewed() && hk_sandbox_permits_threads()) start();
}

/* The thread is the parent's, and what was asked of it too. */
static void begin_child(void) {
  hk_server_forget();
  hk_store_relaxed(&is_listening_wanted, false);
  hk_store_relaxed(&is_report_wanted, false);
  begin();
}

static void take_report_signal(void) {
  if (hk_option.stats_signal == 0) return;
  hk_os_signal_t result = hk_os_signal_take((unsigned)hk_option.stats_signal, false, on_report);
  if (result == hk_os_signal_taken) return;
  char buffer[24];
  hk_format_t value;
  hk_format_init(&value, buffer, sizeof buffer);
  hk_format_decimal(&value, hk_option.stats_signal);
  hk_option_warn("HAKMEM_STATS_SIGNAL", buffer, "is not used",
                 result == hk_os_signal_in_use ? "the program has a use for it already" : "the system refuses it");
}

/* Where the tool's signal cannot be had, nothing is said: nobody has asked for it. */
void hk_serve_prepare(void) {
  hk_lifecycle_start();
  hk_option_load();
  hk_stats_file_check();
  if (hk_os_is_secure_exec()) return;
  if (hk_option.attach_signal != 0) (void)hk_os_signal_take((unsigned)hk_option.attach_signal, true, on_attach);
  take_report_signal();
  hk_os_at_fork(begin_child);
  begin();
}
