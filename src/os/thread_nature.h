/* os/thread_nature.h - L1. The common start and end of the library's own threads. For os_thread.c and
 * os_bare_thread.c. */
#ifndef HK_OS_THREAD_NATURE_H
#define HK_OS_THREAD_NATURE_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "base/compiler.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* The kinds of threads. There is at most one thread of each kind. */
typedef enum { hk_thread_of_c_library, hk_thread_bare, hk_thread_kind_count } hk_thread_kind_t;

/* Announces a thread that the caller is about to make, which has no number yet. Returns false, and announces none, when
 * no thread may begin any more. */
bool hk_thread_nature_announce(hk_thread_kind_t kind);

/* Takes that back: no thread was made. */
void hk_thread_nature_withdraw(hk_thread_kind_t kind);

/* The first call of a new thread: sets its name and the normal scheduling policy. The thread that made it may have a
 * real-time policy, to which the library has no claim. */
void hk_thread_nature_take(hk_thread_kind_t kind, const char *name);

/* Waits until all of these threads have ended, for at most `most_ms`. The caller has told each of them to end. */
void hk_thread_nature_await_ends(uint64_t most_ms);

#endif /* HK_OS_THREAD_NATURE_H */
