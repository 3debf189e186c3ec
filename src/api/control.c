/* api/control.c - L6. What a program can ask of the allocator itself: give memory back, tuning calls, the version. */
#include <malloc.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/process_purge.h"
#include "hakmem/hakmem.h"
#include "heap/sample_countdown.h"
#include "profile/profile.h"

size_t hakmem_collect(void) { return hk_process_purge_everywhere(0); }

int hakmem_malloc_trim(size_t pad) { return hk_process_purge_everywhere(pad) > 0; }

int hakmem_mallopt(int parameter, int value) {
  (void)value;
  switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}

/* The calling thread follows at once. */
static void follow(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  hk_sample_countdown_follow(lease.heap);
  hk_misuse_take_up(lease.heap);
  hk_thread_leave(lease);
}

bool hakmem_profile_start(size_t rate) {
  bool started = hk_profile_start(rate);
  if (started) follow();
  return started;
}

bool hakmem_profile_stop(void) {
  bool stopped = hk_profile_stop();
  if (stopped) follow();
  return stopped;
}

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *hakmem_version(void) {
  return VERSION_TEXT(HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
}
