/* heap/thread.c - L4. See thread.h. */
#include "heap/thread.h"

#include "heap/cut.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/trim.h"
#include "os/os.h"

HK_THREAD_LOCAL hk_heap_variable_t hk_thread_heap = HK_EMPTY_HEAP;

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
  hk_store_relaxed(&hk_thread_heap, HK_EMPTY_HEAP);
  prospect = is_without_heap;
}

/* ---- Another thread may take the heap (attachment.h). */

/* The heap that the thread attached last. */
static HK_THREAD_LOCAL hk_heap_t *last_heap;

/* Chosen: a thread that lost its heap so often, and came for another one, is left alone 64 times as long as at
 * first. */
#define PATIENCE_MOST 6

/* How often that was. */
static HK_THREAD_LOCAL uint8_t losses;

/* NULL: another thread has it. */
static hk_heap_t *take_up(void) {
  hk_heap_t *heap = last_heap;
  if (heap == NULL || !hk_attachment_take_up(&heap->attachment, &hk_thread_heap)) return NULL;
  hk_store_relaxed(&hk_thread_heap, heap);
  return heap;
}

static void attach(hk_heap_t *heap) {
  if (last_heap != NULL && losses < PATIENCE_MOST) losses++;
  last_heap = heap;
  hk_store_relaxed(&hk_thread_heap, heap); /* first: arming may allocate */
  hk_heap_keep(heap);
  hk_thread_arm();
}

void hk_thread_arm(void) {
  hk_heap_t *heap = hk_thread_own();
  if (heap != HK_EMPTY_HEAP && hk_os_thread_exit_arm()) hk_attachment_show(&heap->attachment, &hk_thread_heap, losses);
}

void hk_thread_follow(hk_heap_t *heap) {
  if (hk_thread_own() != HK_EMPTY_HEAP || hk_thread_is_leaving() || take_up() != NULL) return;
  if (hk_heap_take_this(heap)) attach(heap);
}

/* ---- On slow paths. */

/* Its last one first: most of its blocks are that one's. */
static hk_heap_t *take(void) {
  if (HK_UNLIKELY(last_heap != NULL) && hk_heap_take_this(last_heap)) return last_heap;
  return hk_heap_take();
}

hk_thread_lease_t hk_thread_enter(void) {
  hk_thread_lease_t lease = {.heap = hk_thread_own()};
  if (HK_UNLIKELY(lease.heap == HK_EMPTY_HEAP) && (lease.heap = take_up()) == NULL) {
    lease.heap = take();
    if (lease.heap == NULL) return lease;
    lease.borrowed = hk_thread_is_leaving();
    if (!lease.borrowed) attach(lease.heap);
  }
  hk_heap_enter(lease.heap);
  if (lease.borrowed) hk_heap_keep(lease.heap);
  return lease;
}

void hk_thread_leave(hk_thread_lease_t lease) {
  if (lease.borrowed) {
    hk_cut_recall(lease.heap);
    hk_remote_flush(lease.heap);
  }
  hk_heap_leave(lease.heap);
  if (lease.borrowed) hk_remote_give_back(lease.heap);
}

/* ---- The end. */

void hk_thread_let_go(hk_heap_t *heap) {
  hk_cut_recall(heap);
  hk_remote_flush(heap);
  hk_heap_settle_down(heap, SIZE_MAX);
  hk_heap_leave(heap);
  hk_remote_give_back(heap); /* which takes up what came home */
}

void hk_thread_on_exit(void) {
  prospect = is_without_heap;
  hk_heap_t *heap = hk_thread_own();
  if (heap == HK_EMPTY_HEAP) heap = take_up();
  last_heap = NULL;
  if (heap == NULL) return;
  hk_heap_enter(heap); /* first: somebody has it, whenever a signal handler forks */
  hk_attachment_hide(&heap->attachment);
  hk_store_relaxed(&hk_thread_heap, HK_EMPTY_HEAP);
  hk_thread_let_go(heap);
}
