/* inspect/root.c - L8. See root.h.
 *
 * The program may map memory next to the allocator's, and the kernel then shows one mapping for both. So the
 * allocator's ranges ("holes") are cut out of mappings, wherever these begin. Only those records are holes that hold
 * addresses of blocks.
 */
#include "inspect/root.h"

#include "base/arithmetic.h"
#include "base/bits.h"
#include "base/text.h"
#include "inspect/sample.h"
#include "os/os.h"
#include "os/thread_call.h"
#include "os/touched_page.h"
#include "space/meta.h"
#include "space/region_map.h"
#include "unwind/module_map.h"
#include "unwind/own_code.h"
#include "unwind/unwind_cache.h"

/* Records in more ranges than this are read as if they were the program's. */
#define HOLES_MAX 512

/* The part of the calling thread's stack below `frame` that is not read, as far as its mapping goes: the scan's own
 * calls leave addresses there. Chosen: the whole stack of the serve thread. Deeper parts are read, as the program may
 * have used them. */
#define DEAD_STACK_BYTES ((size_t)HK_OS_BARE_STACK_BYTES)

typedef struct {
  uintptr_t start;
  uintptr_t end;
} hole_t;

typedef struct {
  hk_reach_t *reach;
  unsigned count;
  hole_t hole[HOLES_MAX];
} holes_t;

/* Has its own mapping, because the calling thread's stack may be as small as the system allows. */
typedef struct {
  holes_t holes;
  hk_module_map_t map;
  hk_touched_pages_t touched;
  unsigned char is_there[HK_TOUCHED_PAGES_MAX];
} work_t;

static void add(void *context, uintptr_t start, size_t bytes) {
  holes_t *holes = context;
  if (holes->count < HOLES_MAX) holes->hole[holes->count++] = (hole_t){start, start + bytes};
}

static void add_records(holes_t *holes) {
  hk_sample_visit_memory(add, holes);
  hk_unwind_cache_visit_memory(add, holes);
  add(holes, (uintptr_t)&hk_region_map, sizeof hk_region_map);
  hk_meta_visit(add, holes);
  hk_slab_t *leaf;
  for (size_t region = 0; (leaf = hk_region_map_find(&region)) != NULL; region++) {
    add(holes, (uintptr_t)leaf, sizeof(hk_region_t));
  }
}

/* Returns the first hole that ends behind the address; one at UINTPTR_MAX when there is none. */
static hole_t next_hole(const holes_t *holes, uintptr_t address) {
  hole_t next = {UINTPTR_MAX, UINTPTR_MAX};
  uintptr_t start, end;
  if (hk_reach_next_own(holes->reach, address, &start, &end)) next = (hole_t){start, end};
  for (unsigned i = 0; i < holes->count; i++) {
    if (holes->hole[i].end > address && holes->hole[i].start < next.start) next = holes->hole[i];
  }
  return next;
}

/* Fills `is_there` for whole pages. Returns false where the system does not tell. */
static bool look(work_t *work, bool is_shared, uintptr_t start, uintptr_t end) {
  return (is_shared && hk_os_resident_pages((void *)start, end - start, work->is_there)) ||
         hk_touched_pages_look(&work->touched, start, end - start, work->is_there);
}

/* Follows the part of the range in the pages from `first` on that `is_there` has. */
static void follow_runs(const work_t *work, uintptr_t first, uintptr_t start, uintptr_t end) {
  size_t page_bytes = hk_os_page_size();
  for (uintptr_t at = start, run_end; at < end; at = run_end) {
    size_t page = (at - first) / page_bytes;
    bool is_there = work->is_there[page];
    do run_end = first + ++page * page_bytes;
    while (run_end < end && work->is_there[page] == is_there);
    if (is_there) hk_reach_from(work->holes.reach, at, hk_smaller(run_end, end) - at);
  }
}

/* Leaves out pages that were never touched. A read makes those of shared memory resident, and page tables for all. */
static void follow_touched(work_t *work, bool is_shared, uintptr_t start, uintptr_t end) {
  size_t page_bytes = hk_os_page_size();
  for (uintptr_t next; start < end && hk_reach_goes_on(work->holes.reach); start = next) {
    uintptr_t first = hk_align_down(start, page_bytes);
    next = first + hk_smaller(hk_align_up(end, page_bytes) - first, HK_TOUCHED_PAGES_MAX * page_bytes);
    if (look(work, is_shared, first, next)) {
      follow_runs(work, first, start, hk_smaller(next, end));
    } else {
      hk_reach_from(work->holes.reach, start, hk_smaller(next, end) - start);
    }
  }
}

static void follow(work_t *work, bool is_shared, uintptr_t start, uintptr_t end) {
  while (start < end) {
    hole_t hole = next_hole(&work->holes, start);
    if (hole.start > start) follow_touched(work, is_shared, start, hk_smaller(hole.start, end));
    start = hole.end;
  }
}

/* Returns whether the path is that of memory which processes may share: mapped without a file, of huge pages, of POSIX,
 * of memfd_create, of System V. */
static bool is_shared_memory(const char *path) {
  return hk_text_after(path, "/dev/zero") != NULL || hk_text_after(path, "/anon_hugepage") != NULL ||
         hk_text_after(path, "/dev/shm/") != NULL || hk_text_after(path, "/memfd:") != NULL ||
         hk_text_after(path, "/SYSV") != NULL;
}

/* Returns whether the mapping may hold roots. Reading a device's memory may have effects. A read-only mapping of a file
 * holds no addresses of this process. Shared files are left out, except shared memory. */
static bool may_have_pointers(const hk_module_mapping_t *mapping) {
  if (!mapping->is_readable || (!mapping->is_writable && mapping->inode != 0)) return false;
  if (!mapping->is_writable && *mapping->path != '\0') return false; /* [vdso], [vvar] */
  return mapping->inode == 0 || is_shared_memory(mapping->path) ||
         (!mapping->is_shared && hk_text_after(mapping->path, "/dev/") == NULL);
}

/* Adds the library's own data, which begins in a mapping of its file and ends behind it. The code begins where the file
 * does. In a program that is linked with the static archive, the library's data cannot be told from the program's. */
static void add_own_module(holes_t *holes, const hk_module_mapping_t *mapping) {
  if (mapping->start != hk_own_code().start) return;
  uintptr_t end = hk_module_end(mapping->header);
  if (end > mapping->start) add(holes, mapping->start, end - mapping->start);
}

/* ---- Threads. */

typedef struct {
  hk_reach_t *reach;
  hk_root_threads_t *threads;
  uint64_t own;
} thread_visit_t;

/* Reads the words of the thread's registers, whichever system call it is in. A word that is no address in a block leads
 * nowhere. */
static void follow_thread(void *context, uint64_t thread) {
  thread_visit_t *visit = context;
  if (thread == visit->own || visit->reach->is_cut_short) return;
  hk_thread_call_t call = hk_thread_call_of(thread);
  if (call.state == hk_thread_is_over) return;
  visit->threads->others++;
  visit->threads->waiting += call.state == hk_thread_calls;
  if (call.state != hk_thread_runs) hk_reach_from(visit->reach, (uintptr_t)call.word, sizeof call.word);
}

static void follow_threads(hk_reach_t *reach, hk_root_threads_t *threads) {
  thread_visit_t visit = {reach, threads, hk_thread_call_own()};
  *threads = (hk_root_threads_t){.is_known = false};
  threads->is_known = hk_thread_call_each(follow_thread, &visit);
}

/* Returns the lowest address that the first thread's stack uses while the thread waits. Returns `start` when this is
 * unknown, or when the thread waits on another stack (an emulator's). That mapping holds nothing else; beside other
 * threads' stacks there may be more. */
static uintptr_t lowest_frame(uintptr_t start, uintptr_t end) {
  uintptr_t sp = hk_thread_call_of(hk_os_process_id()).word[hk_thread_stack_pointer];
  return sp >= start + HK_RED_ZONE_BYTES && sp < end ? sp - HK_RED_ZONE_BYTES : start;
}

/* Leaves out the memory below the frames, which is dead. Reads it too if the thread has moved meanwhile, because the
 * thread may have made calls there. */
static void follow_first_stack(work_t *work, uintptr_t start, uintptr_t end) {
  uintptr_t lowest = lowest_frame(start, end);
  follow(work, false, lowest, end);
  if (lowest != start && lowest_frame(start, end) != lowest) follow(work, false, start, lowest);
}

static void follow_mapping(work_t *work, const hk_module_mapping_t *mapping, bool is_first_thread) {
  if (!is_first_thread && hk_text_after(mapping->path, "[stack]") != NULL) {
    follow_first_stack(work, mapping->start, mapping->end);
  } else {
    follow(work, mapping->is_shared, mapping->start, mapping->end);
  }
}

/* ---- All roots. */

/* Adds what lies below the frame in its mapping. Below that, other threads may have their stacks. */
static void add_dead_stack(holes_t *holes, const hk_module_mapping_t *mapping, uintptr_t frame) {
  if (frame < mapping->start || frame >= mapping->end) return;
  size_t bytes = hk_smaller(frame - mapping->start, DEAD_STACK_BYTES);
  add(holes, frame - bytes, bytes);
}

/* Returns false when the system lists no mapping. */
static bool follow_mappings(work_t *work, uintptr_t frame, hk_root_threads_t *threads) {
  hk_reach_t *reach = work->holes.reach;
  if (!hk_module_map_open(&work->map)) return false;
  follow_threads(reach, threads);
  bool is_first_thread = hk_thread_call_own() == hk_os_process_id();
  bool is_listed = false;
  while (!reach->is_cut_short && hk_module_map_next(&work->map)) {
    is_listed = true;
    const hk_module_mapping_t *mapping = &work->map.mapping;
    add_own_module(&work->holes, mapping);
    add_dead_stack(&work->holes, mapping, frame);
    if (may_have_pointers(mapping)) follow_mapping(work, mapping, is_first_thread);
  }
  hk_module_map_close(&work->map);
  return is_listed || reach->is_cut_short;
}

hk_root_result_t hk_root_follow_all(hk_reach_t *reach, uintptr_t frame, hk_root_threads_t *threads) {
  size_t work_bytes = hk_align_up(sizeof(work_t), hk_os_page_size());
  work_t *work = hk_os_reserve(work_bytes, hk_os_page_size());
  if (work == NULL) return hk_root_no_memory;
  work->holes.reach = reach;
  add(&work->holes, (uintptr_t)work, work_bytes);
  add_records(&work->holes);
  hk_touched_pages_open(&work->touched, work);
  bool is_followed = follow_mappings(work, frame, threads);
  hk_touched_pages_close(&work->touched);
  (void)hk_os_unmap(work, work_bytes);
  return is_followed ? hk_root_followed : hk_root_no_mappings;
}
