/* heap/thread.c - L4. See thread.h. */
#include "heap/thread.h"

#include "heap/cut.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/trim.h"
#include "os/os.h"

HK_THREAD_LOCAL hk_heap_t *hk_thread_heap = HK_EMPTY_HEAP;

/* Exit handlers of other libraries may allocate after ours has run: the thread then attaches a heap again, and ours
 * runs once more in the next round. There are only so many rounds: after the second time a thread borrows a heap for
 * each call, for a heap that it attached then would never be given back. */
enum { exit_rounds = 2 };
static HK_THREAD_LOCAL uint8_t exit_round;

bool hk_thread_is_leaving(void) { return exit_round >= exit_rounds; }

void hk_thread_go_without_heap(void) {
  hk_thread_heap = HK_EMPTY_HEAP;
  exit_round = exit_rounds;
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
  if (lease.borrowed) hk_heap_give_back(lease.heap);
}

void hk_thread_on_exit(void) {
  exit_round++;
  hk_heap_t *heap = hk_thread_heap;
  if (heap == HK_EMPTY_HEAP) return;
  hk_heap_enter(heap); /* first: somebody has it, whenever a signal handler forks */
  hk_thread_heap = HK_EMPTY_HEAP;
  hk_cut_recall(heap);
  hk_remote_flush(heap);
  hk_heap_settle_down(heap, SIZE_MAX);
  hk_heap_leave(heap);
  hk_heap_give_back(heap);
}
