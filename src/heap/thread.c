/* heap/thread.c - L4. See thread.h. */
#include "heap/thread.h"

#include "heap/cut.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/trim.h"
#include "os/os.h"

HK_THREAD_LOCAL hk_heap_t *hk_thread_heap = HK_EMPTY_HEAP;

/* A heap is kept only by a thread whose exit handler is still to come. After it, destructors of other libraries may
 * allocate, and glibc frees the memory of cached stacks when all destructors have run: nothing tells which call is the
 * last. A thread of a bare clone has no exit handler at all. */
typedef enum { not_known, has_end, is_without_heap } prospect_t;
static HK_THREAD_LOCAL prospect_t prospect;

static HK_COLD bool look_for_end(void) {
  prospect = hk_os_thread_has_end() ? has_end : is_without_heap;
  return prospect == has_end;
}

bool hk_thread_is_leaving(void) { return prospect == not_known ? !look_for_end() : prospect == is_without_heap; }

void hk_thread_go_without_heap(void) {
  hk_thread_heap = HK_EMPTY_HEAP;
  prospect = is_without_heap;
}

static void attach(hk_heap_t *heap) {
  hk_thread_heap = heap; /* first: arming may allocate */
  hk_heap_keep(heap);
  hk_os_thread_exit_arm();
}

void hk_thread_follow(hk_heap_t *heap) {
  if (hk_thread_heap == HK_EMPTY_HEAP && !hk_thread_is_leaving() && hk_heap_take_this(heap)) attach(heap);
}

hk_thread_lease_t hk_thread_enter(void) {
  hk_thread_lease_t lease = {.heap = hk_thread_heap};
  if (HK_UNLIKELY(lease.heap == HK_EMPTY_HEAP)) {
    lease.heap = hk_heap_take();
    if (lease.heap == NULL) return lease;
    lease.borrowed = hk_thread_is_leaving();
    if (!lease.borrowed) attach(lease.heap);
  }
  hk_heap_enter(lease.heap);
  if (lease.borrowed) hk_heap_keep(lease.heap);
  return lease;
}

void hk_thread_leave(hk_thread_lease_t lease) {
  if (lease.borrowed) hk_remote_flush(lease.heap);
  hk_heap_leave(lease.heap);
  if (lease.borrowed) hk_remote_give_back(lease.heap);
}

void hk_thread_on_exit(void) {
  prospect = is_without_heap;
  hk_heap_t *heap = hk_thread_heap;
  if (heap == HK_EMPTY_HEAP) return;
  hk_heap_enter(heap); /* first: somebody has it, whenever a signal handler forks */
  hk_thread_heap = HK_EMPTY_HEAP;
  hk_cut_recall(heap);
  hk_remote_flush(heap);
  hk_heap_unload(heap);
  hk_heap_leave(heap);
  hk_remote_give_back(heap); /* which takes up what came home */
}
