/* api/control.c - L6. What a program can ask of the allocator itself: give memory back, tuning calls, the version. */
#include <malloc.h>

#include "api/lifecycle.h"
#include "api/misuse.h"
#include "hakmem/hakmem.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "policy/stat.h"
#include "space/superslab.h"

static void tidy(hk_heap_t *heap) {
  hk_remote_flush(heap);
  hk_remote_drain(heap);
  hk_misuse_take_up(heap);
  hk_span_trim(heap);
}

static void tidy_idle(hk_heap_t *heap) {
  hk_heap_enter(heap);
  tidy(heap);
  hk_heap_leave(heap);
}

/* What the caller's heap and those without a thread can spare goes to the superslabs, and from there to the system. */
static size_t collect(size_t keep_bytes) {
  /* Releasing spans may already give memory back: what counts is the difference. */
  uint64_t before = hk_load_relaxed(&hk_stat_process.value[hk_stat_given_back]);
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap != NULL) {
    tidy(lease.heap);
    hk_thread_leave(lease);
    hk_heap_visit_idle(tidy_idle);
  }
  (void)hk_superslab_trim(keep_bytes);
  return hk_load_relaxed(&hk_stat_process.value[hk_stat_given_back]) - before;
}

size_t hakmem_collect(void) { return collect(0); }

int hakmem_malloc_trim(size_t pad) { return collect(pad) > 0; }

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
