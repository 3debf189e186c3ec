/* os/own_thread.h - L1. The library's own threads: how each begins, and how another thread waits for their ends.
 * os_thread.c and os_bare_thread.c make them. */
#ifndef HK_OS_OWN_THREAD_H
#define HK_OS_OWN_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* The kinds of threads, by what makes them: pthread_create, or the system call alone (os.h). A process has at most one
 * thread of each kind. */
typedef enum { hk_own_thread_of_c_library, hk_own_thread_bare, hk_own_thread_kind_count } hk_own_thread_kind_t;

/* Announces a thread that the caller is about to make, which has no number yet. Returns false, and announces none, when
 * no thread may begin any more. */
bool hk_own_thread_announce(hk_own_thread_kind_t kind);

/* Takes the announcement back: no thread was made. */
void hk_own_thread_withdraw(hk_own_thread_kind_t kind);

/* The first call of a new thread: notes its number, and sets its name (of less than 16 characters) and the normal
 * scheduling policy. The thread that made it may have a real-time policy, to which the library has no claim. */
void hk_own_thread_begin(hk_own_thread_kind_t kind, const char *name);

/* Waits until the threads of both kinds have ended, for at most `most_ms`. The caller has told each of them to end. */
void hk_own_thread_await_ends(uint64_t most_ms);

#endif /* HK_OS_OWN_THREAD_H */
