/* heap/spare.c - L4. See spare.h. */
#include "heap/spare.h"

#include "base/arithmetic.h"
#include "policy/option.h"
#include "space/superslab.h"

static hk_list_t *list_of(hk_heap_t *heap, unsigned slab_count) { return &heap->spare[slab_count - 1]; }

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

HK_INLINE hk_slab_t *take(hk_heap_t *heap, unsigned slab_count) {
  hk_list_t *list = list_of(heap, slab_count);
  if (hk_list_is_empty(list)) return NULL;
  hk_slab_t *head = HK_CONTAINER_OF(list->next, hk_slab_t, link);
  hk_list_remove(&head->link);
  hk_bump_relaxed(&heap->spare_slabs, -(uint32_t)slab_count);
  return head;
}

void *hk_spare_take_row(hk_heap_t *heap, unsigned slab_count) { return hk_run_reopen(take(heap, slab_count)); }

static void keep(hk_heap_t *heap, hk_slab_t *head) {
  hk_list_push_front(list_of(heap, head->slab_count), &head->link);
  hk_bump_relaxed(&heap->spare_slabs, head->slab_count);
}

/* ---- The reserve. */

/* Chosen: a heap that grows takes a quarter of its spans' slabs ahead, so that the number of locks that it takes grows
 * with the logarithm of its size; at most 1 MiB of addresses. */
#define RESERVE_SHARE 4
#define RESERVE_MAX 16

static size_t reserve_slabs(hk_heap_t *heap) {
  size_t share = hk_load_relaxed(&heap->span_slabs) / RESERVE_SHARE;
  return hk_smaller(hk_smaller(share, RESERVE_MAX), room_at_most());
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
  head->is_zero = true;
  return head;
}

/* ---- Giving back. */

static void release_all(hk_list_t *rows) {
  if (hk_list_is_empty(rows)) return;
  for (hk_list_t *node = rows->next; node != rows; node = node->next) {
    hk_run_retire_tails(HK_CONTAINER_OF(node, hk_slab_t, link));
  }
  hk_superslab_release_all(rows);
}

/* Gives the rows of the lists, and the reserve if `with_reserve`, to the superslabs. */
static void flush(hk_heap_t *heap, bool with_reserve) {
  hk_list_t rows;
  hk_list_init(&rows);
  for (unsigned i = 1; i <= HK_RUN_MAX_SLABS && hk_load_relaxed(&heap->spare_slabs) > 0; i++) {
    for (hk_slab_t *head; (head = take(heap, i)) != NULL;) hk_list_push_back(&rows, &head->link);
  }
  if (with_reserve && heap->reserve != NULL) {
    hk_list_push_back(&rows, &heap->reserve->link);
    heap->reserve = NULL;
  }
  release_all(&rows);
}

static void flush_sparse(hk_heap_t *heap) {
  hk_list_t rows;
  hk_list_init(&rows);
  hk_sparse_list_all(&heap->sparse, &rows);
  release_all(&rows);
}

void hk_spare_flush(hk_heap_t *heap) {
  flush(heap, true);
  flush_sparse(heap);
  hk_heap_check_spare(heap);
}

/* Puts the rest of the reserve among the spare rows: too short for this span, it may serve another. When there is no
 * room, gives those rows and the rest to the superslabs. */
static void keep_reserve(hk_heap_t *heap) {
  if (heap->reserve == NULL) return;
  if (hk_load_relaxed(&heap->spare_slabs) + heap->reserve->slab_count > room(heap)) {
    flush(heap, true);
  } else {
    keep(heap, heap->reserve);
  }
}

static void put(hk_heap_t *heap, hk_slab_t *head, bool with_reserve) {
  unsigned slab_count = head->slab_count;
  head->is_zero = false;
  bool has_list = slab_count <= HK_RUN_MAX_SLABS;
  if (has_list && hk_load_relaxed(&heap->spare_slabs) + slab_count > room(heap)) {
    heap->spare_overflows++;
    flush(heap, with_reserve);
  }
  if (has_list && slab_count <= room(heap)) {
    keep(heap, head);
  } else {
    hk_run_release(head);
  }
  hk_heap_check_spare(heap);
}

/* Gives the reserve up where there is no room. The heap's next spans then get the slabs that its last ones left, which
 * may be resident (measured: docs/experiments/2026-11-30-reserve-and-mid-bins.md). */
void hk_spare_put_span(hk_heap_t *heap, hk_slab_t *head) { put(heap, head, true); }

static bool keep_sparse(hk_heap_t *heap, hk_slab_t *head) {
  hk_list_t rows;
  hk_list_init(&rows);
  bool is_kept = hk_sparse_keep(&heap->sparse, head, room(heap), &rows);
  release_all(&rows);
  return is_kept;
}

void hk_spare_put_run_slow(hk_heap_t *heap, hk_slab_t *head) {
  bool is_listed = !hk_sparse_is_known(head) && hk_load_relaxed(&heap->spare_slabs) + head->slab_count <= room(heap);
  bool is_too_long = head->slab_count > HK_RUN_MAX_SLABS; /* it has grown in place: no request is for as many */
  if (HK_HARDENED || is_listed || is_too_long || !keep_sparse(heap, head)) {
    put(heap, head, false); /* the next runs would make the reserve resident */
  } else {
    head->is_zero = false;
  }
}

void hk_spare_pass_time_slow(hk_heap_t *heap) {
  hk_list_t rows;
  hk_list_init(&rows);
  hk_sparse_pass_time(&heap->sparse, hk_os_coarse_ms(), room(heap), &rows);
  release_all(&rows);
}

/* ---- For spans. */

hk_slab_t *hk_spare_acquire(hk_heap_t *heap, unsigned slab_count) {
  hk_slab_t *head = take(heap, slab_count);
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
