/* os/rights.h - L1. How a thread of ours sees that it never has rights for long that the program's first thread has
 * given up. It looks again and again (os.h), for the kernel tells no thread of it, and the C library knows of no system
 * call that the program makes itself. */
#ifndef HK_OS_RIGHTS_H
#define HK_OS_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/os.h"

HK_C_BEGIN

/* Chosen: with the second look below less than a second, also for a thread that comes late. */
#define HK_RIGHTS_LOOK_MS 750
/* The C library changes one thread after the other, the caller last: a difference that is over by then was none. */
#define HK_RIGHTS_AGAIN_MS 20

/* The thread's own. */
typedef struct {
  uint64_t due_ms; /* of the next look */
  bool was_same;   /* the last look said so, or the first thread made this one: nothing else has made them differ */
  bool differed;   /* the last look said so for the first time */
  bool is_of_c_library; /* which changes the thread's rights with the others' */
  bool is_new;          /* the first thread made it, and no look came since */
} hk_rights_watch_t;

/* Begins the watch of a thread that starts with the first thread's rights, if that made it, or with another one's. */
hk_rights_watch_t hk_rights_watch_begin(bool is_of_first_thread, bool is_of_c_library, uint64_t now_ms);

/* Makes the next look due, unless the thread is new: it is about to do something that shows its rights to others, such
 * as making a file. */
void hk_rights_watch_soon(hk_rights_watch_t *watch, uint64_t now_ms);

/* Whether the calling thread is the first one. */
bool hk_rights_is_first_thread(void);

/* Looks, if it is time to. Other verdicts than hk_rights_same and hk_rights_settled mean that the thread has to end. */
hk_rights_t hk_rights_watch(hk_rights_watch_t *watch, uint64_t now_ms);

/* Whether a thread with this verdict may go on. */
HK_INLINE bool hk_rights_may_stay(hk_rights_t verdict) {
  return verdict == hk_rights_same || verdict == hk_rights_settled;
}

HK_C_END

#endif /* HK_OS_RIGHTS_H */
