/* heap/thread.c - L4. See thread.h. */
#include "heap/thread.h"

#include <stdint.h>

#include "heap/heap_flush.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "heap/sample_countdown.h"
#include "heap/spare.h"
#include "os/os.h"
#include "space/purge_wakeup.h"

HK_THREAD_LOCAL hk_heap_variable_t hk_thread_heap = HK_EMPTY_HEAP;

/* Whether the thread keeps a heap from call to call: only while its exit handler is still to come. After the handler,
 * destructors of other libraries may allocate. When all of them have run, glibc frees the memory of cached stacks. So
 * nothing tells which call is the last. A thread of a bare clone has no exit handler at all. */
typedef enum { not_known, keeps_heap, keeps_no_heap } heap_keeping_t;
static HK_THREAD_LOCAL uint8_t heap_keeping; /* heap_keeping_t */

/* Chosen: frees that a thread that may be ending makes without a heap. When all destructors have run, glibc frees the
 * memory of cached stacks beyond 40 MiB, which is 2,560 stacks of 16 KiB. A heap that is attached then stays attached
 * for ever. */
#define FREES_WITHOUT_HEAP 4096
static HK_THREAD_LOCAL uint16_t free_count;

static HK_THREAD_LOCAL bool has_attached;

static HK_COLD bool look_for_exit_handler(void) {
  heap_keeping = hk_os_thread_is_of_c_library() ? keeps_heap : keeps_no_heap;
  return heap_keeping == keeps_heap;
}

bool hk_thread_keeps_no_heap(void) {
  return heap_keeping == not_known ? !look_for_exit_handler() : heap_keeping == keeps_no_heap;
}

void hk_thread_go_without_heap(void) {
  hk_store_relaxed(&hk_thread_heap, HK_EMPTY_HEAP);
  heap_keeping = keeps_no_heap;
}

/* ---- Another thread may take the heap (attachment.h). */

/* Chosen: doublings of the time after which a thread's heap is detached, one for each heap that the thread lost before
 * it took another; at most 64 times the first. */
#define PATIENCE_MAX 6

/* The number of these doublings. */
static HK_THREAD_LOCAL uint8_t losses;

/* The heap that the thread attached last; before the first one, the owner of the first block that it freed. NULL:
 * none. Behind the shorter variables, so that no padding lies between those (tools/check_exports.py has the bound). */
static HK_THREAD_LOCAL hk_heap_t *known_heap;

/* Returns the heap that the thread had last if it is still its own; NULL when it had none or another thread has it. */
static hk_heap_t *take_up(void) {
  if (!has_attached || !hk_attachment_take_up(&known_heap->attachment, &hk_thread_heap)) return NULL;
  hk_store_relaxed(&hk_thread_heap, known_heap);
  return known_heap;
}

bool hk_thread_take_up(void) { return take_up() != NULL; }

static void attach(hk_heap_t *heap) {
  if (has_attached && losses < PATIENCE_MAX) losses++;
  known_heap = heap;
  has_attached = true;
  hk_store_relaxed(&hk_thread_heap, heap); /* first: arming may allocate */
  hk_heap_keep(heap);
  hk_thread_arm();
  hk_purge_wakeup_note_thread();
}

void hk_thread_arm(void) {
  hk_heap_t *heap = hk_thread_own();
  if (heap == HK_EMPTY_HEAP || hk_heap_is_part(heap)) return; /* a part stays the thread's while that sleeps */
  if (hk_os_thread_exit_arm()) hk_attachment_show(&heap->attachment, &hk_thread_heap, losses);
}

void hk_thread_attach_if_idle(hk_heap_t *heap) {
  if (hk_thread_own() != HK_EMPTY_HEAP || hk_thread_keeps_no_heap() || take_up() != NULL) return;
  if (hk_heap_take_this(heap)) attach(heap);
}

/* ---- Calls without a heap of the thread's own. */

bool hk_thread_frees_without_heap(hk_heap_t *owner) {
  if (hk_thread_own() != HK_EMPTY_HEAP) return false;
  if (hk_thread_keeps_no_heap()) return true;
  if (has_attached) return false; /* its exit handler is armed */
  if (known_heap == NULL) known_heap = owner;
  if (free_count == FREES_WITHOUT_HEAP || (free_count == 0 && !hk_os_thread_is_ending())) return false;
  free_count++;
  return true;
}

/* ---- Slow paths. */

/* Attaches the heap that the thread had last, or that owns the first block that it freed: most of the blocks that it
 * frees are likely that heap's. Returns NULL when it is not idle. */
static hk_heap_t *take_known(void) {
  if (known_heap == NULL) return NULL;
  hk_thread_attach_if_idle(known_heap);
  hk_heap_t *heap = hk_thread_own();
  return heap != HK_EMPTY_HEAP ? heap : NULL;
}

/* Chosen: a thread whose first call frees another thread's block lets others run this often until that block's heap is
 * idle. The other thread may be about to end, and the calling thread takes over its work. From the second wait in vain
 * in a row on, each doubles the number of threads that do not wait, up to 64. */
#define YIELDS_MAX 4
#define IN_VAIN_MAX 8
static struct {
  _Atomic(uint32_t) in_vain; /* waits in a row */
  _Atomic(uint32_t) skips;   /* threads that do not wait before the next one does */
} known_waits;

/* Returns whether the known heap became idle. */
static bool yield_to_known(void) {
  for (unsigned i = 0; i < YIELDS_MAX; i++) {
    if (hk_heap_life(known_heap) == hk_heap_idle) return true;
    hk_os_yield();
  }
  return hk_heap_life(known_heap) == hk_heap_idle;
}

/* Waits until the known heap is idle, before the thread's first heap. A thread that keeps no heap would not get
 * it. */
static void wait_for_known(void) {
  if (has_attached || known_heap == NULL || hk_heap_life(known_heap) != hk_heap_attached) return;
  if (hk_thread_keeps_no_heap()) return;
  uint32_t skips = hk_load_relaxed(&known_waits.skips), in_vain = hk_load_relaxed(&known_waits.in_vain);
  if (skips > 0) {
    hk_store_relaxed(&known_waits.skips, skips - 1);
    return;
  }
  in_vain = yield_to_known() ? 0 : in_vain < IN_VAIN_MAX ? in_vain + 1 : in_vain;
  hk_store_relaxed(&known_waits.in_vain, in_vain);
  hk_store_relaxed(&known_waits.skips, (UINT32_C(1) << in_vain) / 4);
}

static hk_thread_lease_t take(void) {
  wait_for_known();
  hk_heap_t *known = take_known();
  if (known != NULL) return (hk_thread_lease_t){.heap = known};
  hk_thread_lease_t lease = {.heap = hk_heap_take()};
  if (lease.heap == NULL) return lease;
  lease.is_borrowed = hk_thread_keeps_no_heap();
  if (!lease.is_borrowed) attach(lease.heap);
  return lease;
}

hk_thread_lease_t hk_thread_enter_heapless(void) {
  hk_thread_lease_t lease = take();
  if (lease.heap == NULL) return lease;
  hk_heap_enter(lease.heap);
  if (lease.is_borrowed) {
    hk_heap_keep(lease.heap);
  } else {
    hk_sample_countdown_follow(lease.heap); /* after a free the next allocation may need no slow path */
  }
  return lease;
}

void hk_thread_leave_borrowed(hk_heap_t *heap) {
  hk_sample_countdown_recall(heap);
  hk_remote_flush(heap);
  if (hk_heap_spare_slabs(heap) > 0) hk_spare_flush(heap);
  hk_heap_leave(heap);
  hk_remote_give_back(heap);
}

/* ---- The end. */

void hk_thread_give_back(hk_heap_t *heap) {
  hk_sample_countdown_recall(heap);
  hk_remote_flush(heap);
  hk_heap_unload(heap);
  hk_heap_begin_small(heap);
  hk_heap_leave(heap);
  hk_remote_give_back(heap); /* drains the heap if remote frees came meanwhile */
}

void hk_thread_on_exit(void) {
  heap_keeping = keeps_no_heap;
  hk_heap_t *heap = hk_thread_own();
  if (heap == HK_EMPTY_HEAP) heap = take_up();
  has_attached = false;
  if (heap == NULL) return;
  hk_heap_enter(heap); /* first: the heap is in use, whenever a signal handler forks */
  hk_attachment_hide(&heap->attachment);
  hk_store_relaxed(&hk_thread_heap, HK_EMPTY_HEAP);
  hk_thread_give_back(heap);
}
