/* api/control.c - L6. What a program can ask of the allocator itself: give memory back, tuning calls, the version. */
#include <malloc.h>

#include "api/reclaim.h"
#include "hakmem/hakmem.h"

size_t hakmem_collect(void) { return hk_reclaim(0); }

int hakmem_malloc_trim(size_t pad) { return hk_reclaim(pad) > 0; }

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

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *hakmem_version(void) {
  return VERSION_TEXT(HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
}
