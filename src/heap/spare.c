/* heap/spare.c - L4. See spare.h. */
#include "heap/spare.h"

#include "base/arithmetic.h"
#include "heap/heap_check.h"
#include "policy/option.h"
#include "space/superslab.h"

/* Returns how many slabs that runs left are kept, or that spans left. */
static uint32_t slabs_of(hk_heap_t *heap, bool is_run) {
  return is_run ? heap->spare_run_slabs : hk_load_relaxed(&heap->spare_slabs) - heap->spare_run_slabs;
}

static size_t room_at_most(void) { return hk_smaller(hk_option.spare_slabs, hk_option.retain / HK_SLAB_BYTES); }

/* Chosen: a thread's heap begins with room for few slabs. Each 16th time that its room is too short, it gets room for
 * another slab. Many threads that do little keep little, and a thread that works on takes at most a few hundred locks
 * more (measured: docs/experiments/2026-11-24-spare-room.md). */
#define ROOM_FIRST 4
#define ROOM_STEP 16

static size_t room(const hk_heap_t *heap) {
  size_t first = HK_LIKELY(hk_heap_named(heap) == NULL) ? ROOM_FIRST : 0; /* there may be very many parts */
  return hk_smaller(first + heap->spare_overflows / ROOM_STEP, room_at_most());
}

/* ---- The rows of one kind. */

static hk_list_t *list_of(hk_heap_t *heap, unsigned slab_count, bool is_run) {
  return is_run ? &heap->spare_runs[slab_count - 1] : &heap->spare[slab_count - 1];
}

static void count(hk_heap_t *heap, uint32_t slabs, bool is_run) {
  hk_bump_relaxed(&heap->spare_slabs, slabs);
  if (is_run) heap->spare_run_slabs += slabs;
}

static hk_slab_t *take(hk_heap_t *heap, unsigned slab_count, bool is_run) {
  hk_list_t *list = list_of(heap, slab_count, is_run);
  if (hk_list_is_empty(list)) return NULL;
  hk_slab_t *head = HK_CONTAINER_OF(list->next, hk_slab_t, link);
  hk_list_remove(&head->link);
  count(heap, -(uint32_t)slab_count, is_run);
  return head;
}

static void keep(hk_heap_t *heap, hk_slab_t *head, bool is_run) {
  hk_list_push_front(list_of(heap, head->slab_count, is_run), &head->link);
  count(heap, head->slab_count, is_run);
}

hk_slab_t *hk_spare_take_run(hk_heap_t *heap, unsigned slab_count) {
  hk_slab_t *head = take(heap, slab_count, true);
  return head != NULL ? head : take(heap, slab_count, false);
}

/* ---- The reserve. */

/* Chosen: a heap that grows takes a quarter of its spans' slabs ahead, so that the number of locks that it takes grows
 * with the logarithm of its size; at most 1 MiB of addresses. */
#define RESERVE_SHARE 4
#define RESERVE_MOST 16

static size_t reserve_slabs(hk_heap_t *heap) {
  size_t share = hk_load_relaxed(&heap->span_slabs) / RESERVE_SHARE;
  return hk_smaller(hk_smaller(share, RESERVE_MOST), room_at_most());
}

/* Takes slabs from the reserve's top end, as spans are taken from superslabs. Returns NULL when the reserve is too
 * short. */
static hk_slab_t *carve_reserve(hk_heap_t *heap, unsigned slab_count) {
  hk_slab_t *reserve = heap->reserve;
  if (reserve == NULL || reserve->slab_count < slab_count) return NULL;
  unsigned rest = reserve->slab_count - slab_count;
  hk_slab_t *head = reserve + rest;
  reserve->slab_count = (uint8_t)rest;
  if (rest == 0) heap->reserve = NULL;
  head->slab_count = (uint8_t)slab_count;
  head->zero = true;
  return head;
}

/* ---- Giving back. */

static void list_rows(hk_heap_t *heap, bool is_run, hk_list_t *rows) {
  for (unsigned i = 1; i <= HK_RUN_MAX_SLABS && slabs_of(heap, is_run) > 0; i++) {
    for (hk_slab_t *head; (head = take(heap, i, is_run)) != NULL;) hk_list_push_back(rows, &head->link);
  }
}

/* Gives rows of spans, those of runs and a reserve to the superslabs. */
static void give_back(hk_heap_t *heap, bool with_runs, hk_slab_t *reserve) {
  hk_list_t rows;
  hk_list_init(&rows);
  list_rows(heap, false, &rows);
  if (with_runs) list_rows(heap, true, &rows);
  if (reserve != NULL) hk_list_push_back(&rows, &reserve->link);
  if (!hk_list_is_empty(&rows)) hk_superslab_release_all(&rows);
}

void hk_spare_flush(hk_heap_t *heap) {
  hk_slab_t *reserve = heap->reserve;
  heap->reserve = NULL;
  give_back(heap, true, reserve);
  heap->run_fill = (hk_run_fill_t){0}; /* the program may do something else next */
  hk_heap_check_spare(heap);
}

/* ---- Which rows are kept. */

/* Returns the runs that the heap's thread has requested and not freed; 0 where it has freed more: other threads'. */
static uint32_t runs_in_use(hk_heap_t *heap) {
  uint64_t requested = hk_load_relaxed(&heap->stat.value[hk_stat_run_alloc]);
  return (uint32_t)hk_subtract_to_zero(requested, hk_load_relaxed(&heap->stat.value[hk_stat_run_free]));
}

/* Returns how much of the room the rows of spans leave to those of runs. */
static size_t room_beside_spans(hk_heap_t *heap) { return hk_subtract_to_zero(room(heap), slabs_of(heap, false)); }

static bool has_room(hk_heap_t *heap, unsigned slab_count, bool is_run) {
  size_t of_spans = slabs_of(heap, false), of_runs = slabs_of(heap, true), most = room(heap);
  if (of_spans + of_runs + slab_count <= most) return true;
  *(is_run ? &of_runs : &of_spans) += slab_count;
  return of_spans < most && of_runs <= hk_run_fill_room(&heap->run_fill, runs_in_use(heap), most - of_spans);
}

/* Makes room for a row. One that a span left, or a reserve, does not displace runs kept beyond the room. */
static void make_room(hk_heap_t *heap, unsigned slab_count, bool is_run) {
  heap->spare_overflows++;
  size_t of_runs = slabs_of(heap, true);
  if (is_run) hk_run_fill_note_too_short(&heap->run_fill, of_runs, slab_count, room_beside_spans(heap));
  give_back(heap, is_run || of_runs <= room(heap), NULL);
}

/* Puts the rest of the reserve among the spare rows: too short for this span, it may serve another. When there is no
 * room, gives it and other rows to the superslabs. */
static HK_NOINLINE void keep_reserve(hk_heap_t *heap) {
  hk_slab_t *reserve = heap->reserve;
  if (reserve == NULL) return;
  heap->reserve = NULL;
  if (has_room(heap, reserve->slab_count, false)) {
    keep(heap, reserve, false);
  } else {
    give_back(heap, slabs_of(heap, true) <= room(heap), reserve);
  }
}

static void put(hk_heap_t *heap, hk_slab_t *head, bool is_run) {
  unsigned slab_count = head->slab_count;
  head->zero = false;
  bool has_list = slab_count <= HK_RUN_MAX_SLABS;
  if (has_list && !has_room(heap, slab_count, is_run)) make_room(heap, slab_count, is_run);
  if (has_list && has_room(heap, slab_count, is_run)) {
    keep(heap, head, is_run);
  } else {
    hk_superslab_release(head, slab_count);
  }
  hk_heap_check_spare(heap);
}

void hk_spare_put(hk_heap_t *heap, hk_slab_t *head) { put(heap, head, false); }
void hk_spare_put_run(hk_heap_t *heap, hk_slab_t *head) { put(heap, head, true); }

void hk_spare_note_run(hk_heap_t *heap, const hk_slab_t *head) {
  if (!HK_HARDENED) hk_run_fill_note_freed(&heap->run_fill, head, heap->spare_run_slabs);
}

/* ---- For spans. */

hk_slab_t *hk_spare_acquire(hk_heap_t *heap, unsigned slab_count) {
  hk_slab_t *head = take(heap, slab_count, false);
  if (head == NULL) head = take(heap, slab_count, true);
  if (head != NULL) {
    hk_stat_bump(&heap->stat, hk_stat_slab_reuse, 1);
    return head;
  }
  head = carve_reserve(heap, slab_count);
  if (head != NULL) {
    hk_stat_bump(&heap->stat, hk_stat_slab_reserve, 1);
    return head;
  }
  head = hk_superslab_acquire_some(slab_count, slab_count + (unsigned)reserve_slabs(heap));
  if (head == NULL || head->slab_count == slab_count) return head;
  keep_reserve(heap);
  heap->reserve = head;
  hk_heap_check_spare(heap);
  return carve_reserve(heap, slab_count);
}
