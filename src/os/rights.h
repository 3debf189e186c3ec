/* os/rights.h - L1. How a thread of the library sees that it has rights that the program's first thread has given up,
 * so that it never has them for long. It compares the rights regularly (os.h). The kernel does not notify threads, and
 * the C library does not notice the program's bare system calls. */
#ifndef HK_OS_RIGHTS_H
#define HK_OS_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/os.h"

HK_C_BEGIN

/* Chosen: with the second look below less than a second, also for a thread that runs late. */
#define HK_RIGHTS_LOOK_MS 750
/* The C library changes one thread after the other, the caller last. A difference that has gone after this time does
 * not count. */
#define HK_RIGHTS_AGAIN_MS 20

/* The state of a watch. One thread uses it. */
typedef struct {
  uint64_t due_ms; /* time of the next look */
  /* the last look found the rights the same, or the first thread made this one: nothing else changed them */
  bool was_same;
  bool differed; /* the last look found them different, for the first time */
  /* the C library has made the thread, and changes its rights with those of the others */
  bool is_of_c_library;
  bool is_new; /* the first thread made this one, and no look came since */
} hk_rights_watch_t;

/* Begins the watch of a thread that starts with the rights of the first thread, if that thread made it, or of another
 * one. */
hk_rights_watch_t hk_rights_watch_begin(bool is_of_first_thread, bool is_of_c_library, uint64_t now_ms);

/* Makes the next look due now, unless the thread is new. Called before the thread shows its rights to others, as by
 * making a file. */
void hk_rights_watch_soon(hk_rights_watch_t *watch, uint64_t now_ms);

/* Returns whether the calling thread is the first one. */
bool hk_rights_is_first_thread(void);

/* Compares the rights if a look is due. With another verdict than hk_rights_same and hk_rights_settled the thread has
 * to end. */
hk_rights_t hk_rights_watch(hk_rights_watch_t *watch, uint64_t now_ms);

/* Returns whether a thread with this verdict may go on. */
HK_INLINE bool hk_rights_may_stay(hk_rights_t verdict) {
  return verdict == hk_rights_same || verdict == hk_rights_settled;
}

HK_C_END

#endif /* HK_OS_RIGHTS_H */
