/* heap/run_fill.c - L4. See run_fill.h. */
#include "heap/run_fill.h"

#include "base/arithmetic.h"
#include "os/os.h"
#include "space/dirty.h"
#include "space/superslab.h"

/* Chosen: frees from one look to the next, each about two system calls. The first runs are all looked at. So are some
 * after one with twice the resident pages of the others: the program may have begun to fill its runs. */
#define LOOK_STEP 128
#define LOOKS_IN_A_ROW 8
#define FULLER 2

/* Chosen: runs that count. The mean of fewer differs too much from time to time. */
#define RUNS_MOST 64

static bool is_fuller(const hk_run_fill_t *fill, size_t resident_pages) {
  return resident_pages * fill->runs > (size_t)FULLER * fill->resident_pages;
}

static void add(hk_run_fill_t *fill, size_t pages, size_t resident_pages) {
  fill->runs++;
  fill->pages += (uint32_t)pages;
  fill->resident_pages += (uint32_t)resident_pages;
  if (fill->runs < RUNS_MOST) return;
  fill->runs /= 2;
  fill->pages /= 2;
  fill->resident_pages /= 2;
}

static void look(hk_run_fill_t *fill, const hk_slab_t *head, size_t kept_slabs) {
  size_t page_bytes = hk_os_page_size(), bytes = head->slab_count * HK_SLAB_BYTES;
  size_t resident_bytes = hk_os_resident_bytes((void *)hk_slab_start(head), bytes);
  if (resident_bytes == 0) return; /* the system does not tell: the program has written to its run */
  size_t resident_pages = resident_bytes / page_bytes;
  if (fill->runs == 0 || is_fuller(fill, resident_pages)) fill->looks_ahead = LOOKS_IN_A_ROW;
  add(fill, bytes / page_bytes, resident_pages);
  fill->is_limited = hk_os_limits_addresses();
  fill->in_use_slabs = (uint32_t)hk_subtract_to_zero(hk_dirty_in_use() / HK_SLAB_BYTES, kept_slabs);
}

void hk_run_fill_note_freed(hk_run_fill_t *fill, const hk_slab_t *head, size_t kept_slabs) {
  if (fill->freed++ != fill->next_look) return;
  look(fill, head, kept_slabs);
  fill->next_look = fill->freed;
  if (fill->looks_ahead > 0) {
    fill->looks_ahead--;
  } else {
    fill->next_look += LOOK_STEP - 1;
  }
}

/* Chosen: what a heap's runs and those that it keeps may have resident together, as a part of what the runs in use have
 * when they are filled. */
#define PART 3 / 4

/* Solves kept * resident / pages <= room + in use * (3/4 - resident / pages) for the slabs to keep. */
static size_t room_beside(const hk_run_fill_t *fill, uint32_t runs_in_use, size_t room) {
  uint64_t pages = fill->pages, resident = fill->resident_pages;
  uint64_t slabs_in_use = runs_in_use * pages / fill->runs * hk_os_page_size() / HK_SLAB_BYTES;
  uint64_t unwritten = hk_subtract_to_zero(pages * PART, resident);
  return (room * pages + hk_smaller(slabs_in_use, fill->in_use_slabs) * unwritten) / resident;
}

static bool may_exceed(const hk_run_fill_t *fill) {
  return fill->runs > 0 && !fill->is_vain && !fill->is_limited && !hk_load_relaxed(&hk_dirty_is_near_limit);
}

size_t hk_run_fill_room(hk_run_fill_t *fill, uint32_t in_use, size_t room) {
  if (!may_exceed(fill)) return room;
  if (fill->runs_at_most < in_use) fill->runs_at_most = in_use;
  return hk_larger(room_beside(fill, in_use, room), room);
}

/* A program that frees all its runs needs none of those kept. But if the runs that it had would not have made room
 * either, the lengths that it requests are too many: the kept runs were resident in vain. */
void hk_run_fill_note_too_short(hk_run_fill_t *fill, size_t kept_slabs, size_t more_slabs, size_t room) {
  bool was_exceeded = may_exceed(fill) && kept_slabs > room;
  if (was_exceeded && kept_slabs + more_slabs > room_beside(fill, fill->runs_at_most, room)) fill->is_vain = true;
  fill->runs_at_most = 0;
}
