/* space/class_slabs.c - L3. See class_slabs.h. A class's list has dirty slabs first.
 *
 * One class's dirty slabs cannot serve another class. In a program whose phases use different sizes, a fixed bound
 * would make each phase purge the slabs of the last one, and fault them in again later. So the bound is the distance of
 * the memory in use from its recent peak: slabs within it add nothing to the program's peak. It is at least the room
 * for other dirty memory (hk_apart_room). A new span that takes the memory in use above the peak purges slabs of other
 * classes. A limit on memory lowers the bound. */
#include "space/class_slabs.h"

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/list.h"
#include "base/mask.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/size_class.h"
#include "policy/stat.h"
#include "space/apart.h"
#include "space/dirty_account.h"
#include "space/superslab_index.h"
#include "space/wipe.h"

/* Guarded by hk_lock_space; all zero at first. */
static hk_list_t lists[HK_CLASS_COUNT];

/* The most memory in use of late. Threads may overwrite each other's values. */
static _Atomic(size_t) recent_peak;
static _Atomic(uint64_t) peak_ms; /* when it last fell */

/* Chosen: each time that this has passed, the peak loses this share of what lies above the memory in use. */
#define FALL_MS 250
#define FALL_SHARE 4

static size_t bound(void) {
  size_t in_use = hk_dirty_in_use(), peak = hk_load_relaxed(&recent_peak), room = hk_apart_room();
  if (room == 0) return 0; /* retain=0, or a limit on memory is reached */
  return peak > in_use + room ? hk_smaller(peak - in_use, hk_apart_room_below_limit()) : room;
}

/* Call it before memory in use falls. */
static void note_peak(void) {
  size_t in_use = hk_dirty_in_use(), peak = hk_load_relaxed(&recent_peak);
  uint64_t now_ms = hk_os_coarse_ms();
  if (in_use >= peak) {
    peak = in_use;
    hk_store_relaxed(&peak_ms, now_ms);
  } else if (now_ms - hk_load_relaxed(&peak_ms) >= FALL_MS) {
    peak -= (peak - in_use) / FALL_SHARE;
    hk_store_relaxed(&peak_ms, now_ms);
  }
  hk_store_relaxed(&recent_peak, peak);
}

static size_t bytes_of(const hk_slab_t *head) { return head->slab_count * HK_SLAB_BYTES; }

static void purge(hk_slab_t *head) {
  head->is_zero = hk_os_purge((void *)hk_slab_start(head), bytes_of(head));
  if (!head->is_zero) return;
  head->is_wiped = true;
  hk_stat_add(hk_stat_purged, bytes_of(head));
}

/* Notes whether the slabs count as in use. They stay claimed in their superslab in any case, so no other class gets
 * them. */
static void count_as(const hk_slab_t *head, bool is_in_use) {
  hk_superslab_t *superslab = head->superslab;
  uint32_t bits = hk_mask_range((unsigned)(head - superslab->slabs), head->slab_count);
  unsigned shard = hk_superslab_index_lock_of(superslab);
  hk_superslab_index_note_in_use(superslab, bits, is_in_use);
  hk_bump_relaxed(&hk_dirty_slabs[shard].in_use_bytes, is_in_use ? bytes_of(head) : -bytes_of(head));
  hk_superslab_index_unlock(shard);
}

static void keep(hk_slab_t *head, unsigned class_index) {
  hk_list_t *list = &lists[class_index];
  count_as(head, false);
  hk_lock_acquire(hk_lock_space);
  if (!hk_list_is_linked(list)) hk_list_init(list);
  if (head->is_zero) {
    hk_list_push_back(list, &head->link);
  } else {
    hk_list_push_front(list, &head->link);
  }
  hk_lock_release(hk_lock_space);
}

/* Counts the slabs as dirty, or purges them where that would exceed the bound. */
static void count_or_purge(hk_slab_t *head) {
  size_t bytes = bytes_of(head);
  note_peak();
  head->is_zero = false;
  if (hk_add_relaxed(&hk_apart_bytes, bytes) + bytes > bound()) {
    (void)hk_sub_relaxed(&hk_apart_bytes, bytes);
    purge(head);
    if (!head->is_zero) (void)hk_add_relaxed(&hk_apart_bytes, bytes);
  }
}

void hk_class_slabs_put(hk_slab_t *head, unsigned class_index) {
  count_or_purge(head);
  keep(head, class_index);
}

/* Fills the carved blocks of the slabs with zeros, and the others unless they are known to be zero. */
static void wipe(hk_slab_t *head, unsigned class_index) {
  unsigned per_slab = hk_class_blocks_per_slab(class_index), all = head->slab_count * per_slab;
  unsigned left = head->is_wiped ? hk_span_carved(head) : all;
  for (unsigned i = 0; left > 0; i++) {
    unsigned here = left < per_slab ? left : per_slab;
    hk_wipe((void *)hk_slab_start(head + i), here * hk_class_bytes(class_index));
    left -= here;
  }
  head->is_wiped = true;
}

void hk_class_slabs_put_with_blocks(hk_slab_t *head, unsigned class_index) {
  count_or_purge(head);
  if (!head->is_zero) wipe(head, class_index);
  keep(head, class_index);
}

/* Chosen: how many rows of another length a search passes over. Spans shorter than their class's, which leave such
 * rows, begin only near a limit on addresses. */
#define PASSED_MAX 64

/* Returns the class's first row of `slab_count` slabs. With 0, returns its first row of any length, if that is
 * dirty. */
static hk_slab_t *find_locked(unsigned class_index, unsigned slab_count) {
  hk_list_t *list = &lists[class_index];
  if (!hk_list_is_linked(list)) return NULL;
  unsigned passed = 0;
  for (hk_list_t *link = list->next; link != list && passed <= PASSED_MAX; link = link->next, passed++) {
    hk_slab_t *head = HK_CONTAINER_OF(link, hk_slab_t, link);
    if (slab_count == 0) return head->is_zero ? NULL : head;
    if (head->slab_count == slab_count) return head;
  }
  return NULL;
}

/* Takes the row that find_locked finds in the class's list. */
static hk_slab_t *take_first(unsigned class_index, unsigned slab_count) {
  hk_lock_acquire(hk_lock_space);
  hk_slab_t *head = find_locked(class_index, slab_count);
  if (head != NULL) hk_list_remove(&head->link);
  hk_lock_release(hk_lock_space);
  if (head == NULL) return NULL;
  count_as(head, true);
  if (!head->is_zero) (void)hk_sub_relaxed(&hk_apart_bytes, bytes_of(head));
  return head;
}

/* Purges slabs until no more than `most_bytes` are dirty. */
static void purge_down_to(size_t most_bytes) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    while (hk_load_relaxed(&hk_apart_bytes) > most_bytes) {
      hk_slab_t *head = take_first(i, 0);
      if (head == NULL) break;
      purge(head);
      bool is_refused = !head->is_zero;
      if (is_refused) (void)hk_add_relaxed(&hk_apart_bytes, bytes_of(head));
      keep(head, i);
      if (is_refused) return;
    }
  }
}

hk_slab_t *hk_class_slabs_take(unsigned class_index, unsigned slab_count) {
  hk_slab_t *head = take_first(class_index, slab_count);
  if (head == NULL || head->is_zero) purge_down_to(bound());
  return head;
}

void hk_class_slabs_purge_excess(void) { purge_down_to(bound()); }

void hk_class_slabs_purge(void) {
  hk_store_relaxed(&recent_peak, 0);
  purge_down_to(0);
}

void hk_class_slabs_repair(void) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) lists[i] = (hk_list_t){NULL, NULL};
  hk_store_relaxed(&hk_apart_bytes, 0);
}
