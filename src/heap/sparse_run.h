/* heap/sparse_run.h - L4. Sparse runs: free runs of which few pages are resident. A heap keeps them beside its other
 * spare slabs, for its own next runs of the same length. The program then writes the same pages again. Where free runs
 * of all lengths share their slabs, each page is at some time the first or the last one of a run, and stays resident.
 *
 * The heap looks at each run when it first keeps it, and so knows its resident pages. A known run that is requested and
 * freed again it looks at now and then: the program may have begun to fill its runs. All functions are for the thread
 * that has the heap.
 */
#ifndef HK_HEAP_SPARSE_RUN_H
#define HK_HEAP_SPARSE_RUN_H

#include "base/atomic.h"
#include "base/list.h"
#include "space/dirty.h"
#include "space/run.h"
#include "space/slab.h"

typedef struct {
  _Atomic(size_t) slabs; /* of `kept`: other threads read it */
  size_t pages;          /* resident, as of the last look at each run */
} hk_run_sum_t;

HK_INLINE void hk_run_sum_add(hk_run_sum_t *sum, const hk_slab_t *head) {
  hk_bump_relaxed(&sum->slabs, head->slab_count);
  sum->pages += head->resident_pages;
}
HK_INLINE void hk_run_sum_subtract(hk_run_sum_t *sum, const hk_slab_t *head) {
  hk_bump_relaxed(&sum->slabs, -(size_t)head->slab_count);
  sum->pages -= head->resident_pages;
}

/* Zero but for what hk_sparse_init sets. */
typedef struct {
  hk_slab_t *of_length[HK_RUN_MAX_SLABS]; /* [i]: free runs of i + 1 slabs, through sparse.next, last freed first */
  hk_run_sum_t kept;                      /* the free runs */
  hk_run_sum_t known;                     /* the free runs, and those that left since the heap kept them */
  hk_run_gone_t gone;                     /* those of the latter that ended elsewhere; the rest is in use */
  unsigned look_budget;                   /* for looks at runs that are not known */
  unsigned known_looks;                   /* at known runs, since one was found filled */
  unsigned until_look;                    /* frees of known runs before the next look at one */
  unsigned slab_pages;                    /* pages of a slab */
  unsigned after_filled;                  /* looks in which another filled run ends all free ones */
  bool is_ending;                         /* all free runs go, some at a time, and none is kept meanwhile */
  uint32_t puts, puts_before;             /* free runs that came, until now and until `tick_ms` */
  uint64_t tick_ms;                       /* when hk_sparse_pass_time last looked whether some came */
  bool has_limit;                         /* the process has one on addresses; looked up again at `limit_due_ms` */
  uint64_t limit_due_ms;
  uint64_t random;
} hk_sparse_t;

/* Makes `sparse` as it is in a new heap, but for the known runs in use. Requires that no run is kept. */
void hk_sparse_init(hk_sparse_t *sparse);

/* Returns a free run of `slab_count` slabs (1 to HK_RUN_MAX_SLABS), closed; NULL when there is none. */
HK_INLINE hk_slab_t *hk_sparse_take(hk_sparse_t *sparse, unsigned slab_count) {
  hk_slab_t *head = sparse->of_length[slab_count - 1];
  if (head == NULL) return NULL;
  sparse->of_length[slab_count - 1] = head->sparse.next;
  hk_run_sum_subtract(&sparse->kept, head);
  return head;
}

/* Returns whether a heap has kept the closed run since it last began at these slabs. */
HK_INLINE bool hk_sparse_is_known(const hk_slab_t *head) { return head->resident_pages != 0; }

/* Puts a known run of this heap among the free runs. */
HK_INLINE void hk_sparse_put(hk_sparse_t *sparse, hk_slab_t *head) {
  hk_slab_t **list = &sparse->of_length[head->slab_count - 1];
  head->sparse.next = *list;
  head->put_number = ++sparse->puts;
  *list = head;
  hk_run_sum_add(&sparse->kept, head);
}

/* Chosen: a heap keeps at most four times what its known runs in use have, in slabs and in resident pages. With three
 * times, too few lengths find a run (measured: docs/experiments/2026-11-28-sparse-runs.md). */
#define HK_SPARSE_TIMES_IN_USE 4

/* Returns whether `kept` exceeds a multiple of the runs in use, which are known - kept - gone, by at most `room`. */
HK_INLINE bool hk_sparse_is_within(size_t kept, size_t known, size_t gone, size_t room) {
  return kept * (1 + HK_SPARSE_TIMES_IN_USE) <= room + HK_SPARSE_TIMES_IN_USE * (known - gone);
}

/* Returns whether `slabs` and `pages` may be kept besides, of runs that count in `known` already. All pages of
 * `room_slabs` may be resident. */
HK_INLINE bool hk_sparse_has_room(hk_sparse_t *sparse, size_t slabs, size_t pages, size_t room_slabs) {
  return hk_sparse_is_within(hk_load_relaxed(&sparse->kept.slabs) + slabs, hk_load_relaxed(&sparse->known.slabs),
                             hk_load_relaxed(&sparse->gone.gone_slabs), room_slabs) &&
         hk_sparse_is_within(sparse->kept.pages + pages, sparse->known.pages, hk_load_relaxed(&sparse->gone.gone_pages),
                             room_slabs * sparse->slab_pages);
}

/* Keeps a closed run if it is sparse and the bound is not exceeded: `room_slabs`, of which all pages may be resident,
 * and a multiple of what the known runs in use have. Moves other free runs to `rows`, with their tails: to make room,
 * those of the length that came least recently; or in several calls all where the program begins to fill its runs, or
 * near a limit on memory. Returns whether the run is kept. */
bool hk_sparse_keep(hk_sparse_t *sparse, hk_slab_t *head, size_t room_slabs, hk_list_t *rows);

/* Keeps a closed run, as hk_sparse_keep does, if it is a known run of this heap that is due for no look and the bound
 * is not exceeded without room. Otherwise changes nothing and returns false. */
HK_INLINE bool hk_sparse_keep_returned(hk_sparse_t *sparse, hk_slab_t *head) {
  bool comes_back = hk_sparse_is_known(head) && head->sparse.gone == &sparse->gone && sparse->until_look > 0;
  bool is_ending = sparse->is_ending || hk_load_relaxed(&hk_dirty_is_near_limit);
  if (HK_UNLIKELY(!comes_back || is_ending || !hk_sparse_has_room(sparse, head->slab_count, head->resident_pages, 0)))
    return false;
  sparse->until_look--;
  hk_sparse_put(sparse, head);
  return true;
}

/* Moves some free runs to `rows` where none came for a second, or the bound is exceeded because runs in use ended
 * elsewhere. */
void hk_sparse_pass_time(hk_sparse_t *sparse, uint64_t now_ms, size_t room_slabs, hk_list_t *rows);

/* Moves all free runs to `rows`. */
void hk_sparse_list_all(hk_sparse_t *sparse, hk_list_t *rows);

#endif /* HK_HEAP_SPARSE_RUN_H */
