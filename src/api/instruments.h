/* api/instruments.h - L5. The instruments' functions that the allocator calls, besides the hook for samples: at the
 * start, after a fork, when threads begin and end, before a system call filter, and for messages about misuse. Each
 * instrument defines its own function; api/no_instruments.c defines all of them in a build without instruments.
 */
#ifndef HK_API_INSTRUMENTS_H
#define HK_API_INSTRUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/address_class.h"
#include "api/guard_event.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* ---- inspect/profile.c */

/* Starts the heap profile with an average of `rate` bytes between samples; 0 takes the option `profile_rate`. Each
 * thread follows at its next slow path. Returns false when the profile runs already, and in a build without checks,
 * which cannot tell a sampled block from others. */
bool hk_profile_start(uint64_t rate);

/* Resets the profile in a child of fork: allocations count from now on, and live samples stay the parent's. */
void hk_profile_begin_child(void);

/* ---- inspect/crash_report.c: each does nothing unless the option `crash_report` is on. */

/* Installs the report's signal handlers, and gives the calling thread a stack for them. Requires that the options are
 * read. */
void hk_crash_report_install(void);

/* Gives the calling thread a stack for the report. Called when the thread first uses the allocator. */
void hk_crash_report_begin_thread(void);

/* Gives the thread's stack back. Called by the thread's exit handler. */
void hk_crash_report_end_thread(void);

/* ---- report/guard_report.c */

/* Reports a memory error that a guard slot has caught: on stderr unless `is_quiet`, and into the option's file. Returns
 * false when it does not: hk_guarded_note_place has returned false, or another thread's report takes too long. May be
 * called in the signal handler of `event->crash`. */
bool hk_guard_report(const hk_guard_event_t *event, bool is_quiet);

/* ---- inspect/describe.c */

/* Appends ", 3 bytes past the end of a live block of ..." when the address lies shortly behind a live or free block
 * that ends where `where` begins. Appends nothing otherwise. Takes no lock. */
void hk_describe_neighbour(hk_format_t *out, uintptr_t address, const hk_address_class_t *where);

/* ---- serve/serve.c */

/* Takes the signals of the serve thread, and starts it where an option says so. Called at the program's start. */
void hk_serve_prepare(void);

/* Wakes the serve thread, if there is one, so that it ends. Requires that hk_sandbox_is_near is set. */
void hk_serve_end_soon(void);

/* True while the next request is to start the serve thread. */
extern HK_HIDDEN _Atomic(bool) hk_serve_is_wanted;
HK_COLD void hk_serve_consider_slow(void);

/* Starts the serve thread if it is wanted. Called from requests, without a lock. */
HK_INLINE void hk_serve_consider(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_serve_is_wanted))) hk_serve_consider_slow();
}

HK_C_END

#endif /* HK_API_INSTRUMENTS_H */
