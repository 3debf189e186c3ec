/* os/os_linux.c - L1. Implements these sections of os.h on Linux: ranges of memory, access to them and their purging,
 * the end of the process, and the hooks at ends of threads and at forks. Memory uses bare system calls: they leave
 * errno alone, and enter no library that interposes mmap and then allocates. The C library supplies the rest. */
#define _GNU_SOURCE 1

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include "os/address_hole.h"
#include "os/mapping_call.h"
#include "os/os.h"
#include "os/syscall.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_FREE
#define MADV_FREE 8
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { readable_writable = PROT_READ | PROT_WRITE };

/* The end of the next aligned range that is not inaccessible. Ranges then lie side by side, which the kernel keeps as
 * one mapping, and each costs one system call. Only a hint: any thread writes it, relaxed, and any value is correct. */
static _Atomic(uintptr_t) next_end;

/* The start of the last unmapped range of less than 2 MiB, for the next range as small; 0: none. Also a hint. */
static _Atomic(uintptr_t) small_hole;

/* The lowest start of an aligned range; 0: none. Also a hint. */
static _Atomic(uintptr_t) lowest_start;

/* ---- Aligned ranges. ------------------------------------------------------------------------------------------- */

/* How often reserve_below doubles its step: from the alignment to 2,048 times as much. */
#define STEP_COUNT 12

/* A request for a mapping. */
typedef struct {
  size_t bytes;
  size_t alignment;
  int access;
} request_t;

/* Maps near `hint`. Returns the start when it is aligned, and 0 when the system refuses. A misaligned range is
 * unmapped: its start goes to `*misplaced`, and the result is 0. (A range that the kernel refuses to unmap stays
 * mapped, never touched.) */
static uintptr_t reserve_near(uintptr_t hint, const request_t *request, uintptr_t *misplaced) {
  *misplaced = 0;
  long start = hk_mapping_call_map(hint, request->bytes, request->access, 0);
  if (hk_syscall_failed(start)) return 0;
  if (hk_is_aligned((uintptr_t)start, request->alignment)) return (uintptr_t)start;
  (void)hk_mapping_call_unmap((uintptr_t)start, request->bytes);
  *misplaced = (uintptr_t)start;
  return 0;
}

/* Maps a larger range and unmaps its ends. Where the kernel refuses to unmap an end (no room for one more mapping),
 * that end stays: it costs address space and no memory, and a failure would cost the program its request. */
static uintptr_t reserve_and_trim(const request_t *request) {
  size_t total;
  if (__builtin_add_overflow(request->bytes, request->alignment - hk_os_page_size(), &total)) return 0;
  long mapped = hk_mapping_call_map(0, total, request->access, 0);
  if (hk_syscall_failed(mapped)) return 0;
  uintptr_t start = hk_align_up((uintptr_t)mapped, request->alignment);
  size_t head_bytes = start - (uintptr_t)mapped;
  size_t tail_bytes = total - head_bytes - request->bytes;
  if (head_bytes > 0) (void)hk_mapping_call_unmap((uintptr_t)mapped, head_bytes);
  if (tail_bytes > 0) (void)hk_mapping_call_unmap(start + request->bytes, tail_bytes);
  return start;
}

/* Steps down from `from`, farther each time, to find one aligned hole. For a process near its address limit, which has
 * room for the range but not for the range with its alignment. */
static uintptr_t reserve_below(uintptr_t from, const request_t *request) {
  size_t step = hk_larger(request->alignment, request->bytes);
  for (unsigned i = 0; i < STEP_COUNT && step < from; i++, step *= 2) {
    from -= step;
    uintptr_t misplaced;
    uintptr_t start = reserve_near(hk_align_down(from, request->alignment), request, &misplaced);
    if (start != 0) return start;
    if (misplaced == 0) return 0;
  }
  return 0;
}

/* Returns an address that most probably has no aligned range below it. */
static uintptr_t below_all(uintptr_t chosen) {
  uintptr_t lowest = hk_load_relaxed(&lowest_start);
  return lowest != 0 && lowest < chosen ? lowest : chosen;
}

static bool is_small(size_t bytes) { return bytes < HK_SUPERSLAB_BYTES; }

/* Returns whether the range is to lie below the last one. Inaccessible ranges have no such place: their callers unmap
 * them in parts, and parts of less than 2 MiB do not move `next_end` up again. */
static bool goes_below(const request_t *request) { return !is_small(request->bytes) && request->access != PROT_NONE; }

/* Returns a hint, or 0. Without a hint, and where another thread was faster, the kernel chooses the highest hole that
 * is long enough. */
static uintptr_t hint_for(const request_t *request) {
  if (goes_below(request)) {
    uintptr_t end = hk_load_relaxed(&next_end);
    return end > request->bytes ? hk_align_down(end - request->bytes, request->alignment) : 0;
  }
  if (!is_small(request->bytes)) return 0;
  uintptr_t hole = hk_load_relaxed(&small_hole);
  hk_store_relaxed(&small_hole, 0);
  return hk_align_up(hole, request->alignment);
}

static uintptr_t reserve_aligned(const request_t *request) {
  uintptr_t misplaced;
  uintptr_t start = reserve_near(hint_for(request), request, &misplaced);
  if (start != 0 || misplaced == 0) return start; /* the system refuses a larger range too */
  /* The hole that the kernel chose often reaches down to an aligned start. */
  uintptr_t chosen = misplaced;
  start = reserve_near(hk_align_down(chosen, request->alignment), request, &misplaced);
  if (start == 0) start = reserve_and_trim(request);
  if (start == 0) start = reserve_below(below_all(chosen), request);
  return start;
}

/* Chosen: how many addresses below the last short range are tried, before the kernel chooses. */
#define TRIES_BELOW 8

/* Maps a range that is shorter than a slab where such a range was unmapped, or below the last one. */
static uintptr_t reserve_short(const request_t *request) {
  uintptr_t start, misplaced, hole = hk_address_hole_take();
  if (hole != 0) {
    start = reserve_near(hole, request, &misplaced);
    if (start == 0 && misplaced == 0) hk_address_hole_note(hole); /* the system refuses */
    if (start != 0 || misplaced == 0) return start;
  }
  for (unsigned i = 0; i < TRIES_BELOW; i++) {
    uintptr_t hint = hk_address_hole_below();
    if (hint == 0) break;
    start = reserve_near(hint, request, &misplaced);
    if (start == 0 && misplaced == 0) hk_address_hole_note_mapped(hint + HK_SLAB_BYTES);
    if (start != 0 || misplaced == 0) return start;
  }
  start = reserve_aligned(request);
  if (start != 0) hk_address_hole_note_mapped(start);
  return start;
}

static bool is_short(const request_t *request) {
  return request->bytes < HK_SLAB_BYTES && request->alignment == HK_SLAB_BYTES;
}

static void *reserve(const request_t *request) {
  if (request->alignment <= hk_os_page_size()) {
    long start = hk_mapping_call_map(0, request->bytes, request->access, 0);
    return hk_syscall_failed(start) ? NULL : (void *)start;
  }
  uintptr_t start = is_short(request) ? reserve_short(request) : reserve_aligned(request);
  /* The range after an inaccessible one does not go below it: it might take a hole that other such ranges need. */
  bool moves_end = request->access != PROT_NONE && (!is_small(request->bytes) || start <= hk_load_relaxed(&next_end));
  if (start != 0 && moves_end) hk_store_relaxed(&next_end, start);
  if (start != 0) hk_store_relaxed(&lowest_start, below_all(start));
  return (void *)start;
}

void *hk_os_reserve(size_t bytes, size_t alignment) {
  return reserve(&(request_t){.bytes = bytes, .alignment = alignment, .access = readable_writable});
}

void *hk_os_reserve_readable(size_t bytes, size_t alignment) {
  void *start = reserve(&(request_t){.bytes = bytes, .alignment = alignment, .access = PROT_READ});
  if (start != NULL) hk_os_huge_keep_small(start, bytes);
  return start;
}

void *hk_os_reserve_inaccessible(size_t bytes, size_t alignment) {
  return reserve(&(request_t){.bytes = bytes, .alignment = alignment, .access = PROT_NONE});
}

bool hk_os_purge_and_forbid(void *start, size_t bytes) {
  long placed = hk_mapping_call_map((uintptr_t)start, bytes, PROT_NONE, MAP_FIXED);
  return !hk_syscall_failed(placed);
}

static bool protect(uintptr_t start, uintptr_t end, int access) {
  return hk_syscall3(SYS_mprotect, (long)start, (long)(end - start), access) == 0;
}

bool hk_os_suspend_access(void *start, size_t bytes) {
  return protect((uintptr_t)start, (uintptr_t)start + bytes, PROT_NONE);
}

bool hk_os_allow_writes(void *start, size_t bytes) {
  return protect((uintptr_t)start, (uintptr_t)start + bytes, readable_writable);
}

void hk_os_forbid_writes(void *start, size_t bytes) {
  uintptr_t first = hk_align_up((uintptr_t)start, hk_os_page_size());
  uintptr_t end = hk_align_down((uintptr_t)start + bytes, hk_os_page_size());
  if (first < end) (void)protect(first, end, PROT_READ);
}

/* Records an unmapped range as the next hint. Holes are used again, highest first, as the kernel would: addresses that
 * only went down would need new records for ever. Small holes have no room for ranges that are aligned to 2 MiB. */
static void note_hole(uintptr_t start, size_t bytes) {
  uintptr_t end = start + bytes;
  if (bytes < HK_SLAB_BYTES) {
    hk_address_hole_note(start);
  } else if (is_small(bytes)) {
    hk_store_relaxed(&small_hole, start);
  } else if (end > hk_load_relaxed(&next_end)) {
    hk_store_relaxed(&next_end, end);
  }
}

bool hk_os_unmap(void *start, size_t bytes) {
  if (hk_mapping_call_unmap((uintptr_t)start, bytes) != 0) return false;
  note_hole((uintptr_t)start, bytes);
  return true;
}

/* Purges locked memory, for which the kernel refuses MADV_DONTNEED. Kernels before 5.18 do not have this advice. A
 * filter that checks the advice may refuse it too, so the call is left out under a filter of the process's own. */
static bool purge_locked(void *start, size_t bytes) {
  return !hk_sandbox_is_own() && hk_mapping_call_advise(start, bytes, MADV_DONTNEED_LOCKED) == 0;
}

bool hk_os_purge(void *start, size_t bytes) {
  long answer = hk_mapping_call_advise(start, bytes, MADV_DONTNEED);
  return answer == 0 || (answer == -EINVAL && purge_locked(start, bytes));
}

/* Tries one page: the range is one mapping. */
bool hk_os_purge_if_locked(void *start, size_t bytes) {
  char *last_page = (char *)start + bytes - hk_os_page_size();
  return hk_mapping_call_advise(last_page, hk_os_page_size(), MADV_DONTNEED) == -EINVAL && purge_locked(start, bytes);
}

/* Set where the kernel does not have MADV_FREE (before 4.5). Such a kernel refuses it with the error that it has for
 * locked memory. So the advice is unknown only where MADV_DONTNEED then succeeds. */
static _Atomic(bool) is_lazy_unknown;

hk_os_purge_t hk_os_purge_lazily(void *start, size_t bytes) {
  long answer = hk_load_relaxed(&is_lazy_unknown) ? -EINVAL : hk_mapping_call_advise(start, bytes, MADV_FREE);
  if (answer == 0) return hk_os_purge_lazy;
  if (hk_mapping_call_advise(start, bytes, MADV_DONTNEED) != 0)
    return hk_os_purge(start, bytes) ? hk_os_purge_done : hk_os_purge_refused;
  if (answer == -EINVAL) hk_store_relaxed(&is_lazy_unknown, true);
  return hk_os_purge_done;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Set where the kernel does not have MADV_POPULATE_WRITE (before 5.14). */
static _Atomic(bool) is_prefault_unknown;

bool hk_os_prefault(void *start, size_t bytes) {
  if (hk_load_relaxed(&is_prefault_unknown)) return false;
  long answer = hk_mapping_call_advise(start, bytes, MADV_POPULATE_WRITE);
  if (answer == -EINVAL) hk_store_relaxed(&is_prefault_unknown, true);
  return answer == 0;
}

bool hk_os_resize(void *start, size_t old_bytes, size_t new_bytes) {
  return !hk_syscall_failed(hk_mapping_call_remap((uintptr_t)start, old_bytes, new_bytes, 0, 0));
}

/* Maps the target of a refused move again, unless another thread has mapped memory there: the kernel unmaps the target
 * before it checks the source. */
static void restore_target(uintptr_t target, size_t bytes) {
  /* A filter that checks flags permits the old ones alone. Without MAP_FIXED_NOREPLACE the address is a hint; kernels
   * before 4.17 treat it as one anyway. */
  long start = hk_mapping_call_map(target, bytes, readable_writable, hk_sandbox_is_own() ? 0 : MAP_FIXED_NOREPLACE);
  if (!hk_syscall_failed(start) && (uintptr_t)start != target) (void)hk_mapping_call_unmap((uintptr_t)start, bytes);
}

/* Tests a range by growing it a little. The kernel refuses this with EFAULT where the range lies in several mappings,
 * before it checks anything else. */
static bool is_one_mapping(uintptr_t start, size_t bytes) {
  size_t page_bytes = hk_os_page_size();
  long grown = hk_mapping_call_remap(start, bytes, bytes + page_bytes, 0, 0);
  if (!hk_syscall_failed(grown)) (void)hk_mapping_call_unmap(start + bytes, page_bytes);
  return grown != -EFAULT;
}

bool hk_os_move(void *start, size_t old_bytes, void *target, size_t new_bytes) {
  /* Another thread may map the target's addresses before restore_target does. So a move that is known to fail is not
   * tried. */
  if (!is_one_mapping((uintptr_t)start, old_bytes)) return false;
  long moved =
      hk_mapping_call_remap((uintptr_t)start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (uintptr_t)target);
  if (hk_syscall_failed(moved)) {
    restore_target((uintptr_t)target, new_bytes);
    return false;
  }
  note_hole((uintptr_t)start, old_bytes);
  return true;
}

bool hk_os_wipe_on_fork(void *start, size_t bytes) {
  return hk_mapping_call_advise(start, bytes, MADV_WIPEONFORK) == 0;
}

/* ---- The end. -------------------------------------------------------------------------------------------------- */

void hk_os_abort(void) { abort(); }

/* ---- Ends of threads, and forks. ------------------------------------------------------------------------------- */

/* Written once by hk_os_thread_exit_init; the release of the flag publishes the others. */
static void (*exit_hook)(void);
static pthread_key_t exit_key;
static _Atomic(bool) exit_hook_is_set;

static void run_exit_hook(void *armed) {
  (void)armed;
  exit_hook();
}

bool hk_os_thread_exit_init(void (*hook)(void)) {
  int saved_errno = errno;
  exit_hook = hook;
  bool created = pthread_key_create(&exit_key, run_exit_hook) == 0;
  hk_store_release(&exit_hook_is_set, created);
  errno = saved_errno;
  return created;
}

bool hk_os_thread_exit_arm(void) {
  if (!hk_load_acquire(&exit_hook_is_set)) return false;
  int saved_errno = errno;
  /* Any value but NULL: the C library calls the hook for no other. */
  bool is_armed = pthread_setspecific(exit_key, &exit_key) == 0;
  errno = saved_errno;
  return is_armed;
}

/* The C library's record of a thread that it has not made has no number. */
bool hk_os_thread_is_of_c_library(void) { return hk_os_thread_self().number != 0; }

void hk_os_at_fork(void (*child)(void)) {
  int saved_errno = errno;
  /* If this fails, hk_os_wipe_on_fork still tells the child. */
  (void)pthread_atfork(NULL, NULL, child);
  errno = saved_errno;
}
