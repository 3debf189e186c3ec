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

#include "base/list.h"
#include "space/run.h"
#include "space/slab.h"

typedef struct {
  size_t slabs;
  size_t pages; /* resident, as of the last look at each run */
} hk_run_sum_t;

/* Zero but for what hk_sparse_init sets. */
typedef struct {
  hk_list_t of_length[HK_RUN_MAX_SLABS]; /* [i]: free runs of i + 1 slabs, through link, last freed first */
  hk_list_t by_age;                      /* all free runs, through age_link, last freed first */
  hk_run_sum_t kept;                     /* the free runs */
  hk_run_sum_t taken;                    /* known runs that left, without those that came back */
  hk_run_gone_t gone;                    /* those of them that ended elsewhere; the others are in use */
  unsigned credit;                       /* for looks at runs that are not known */
  unsigned known_looks;                  /* at known runs, since one was found filled */
  unsigned until_look;                   /* frees of known runs before the next look at one */
  unsigned after_filled;                 /* looks in which another filled run ends all free ones */
  bool is_ending;                        /* all free runs go, some at a time, and none is kept meanwhile */
  uint32_t uses, uses_before;            /* free runs that came or were taken, until now and until `tick_ms` */
  uint64_t tick_ms;                      /* when hk_sparse_pass_time last looked whether there were some */
  uint64_t random;
} hk_sparse_t;

/* Makes `sparse` as it is in a new heap, but for the known runs in use. Requires that no run is kept. */
void hk_sparse_init(hk_sparse_t *sparse);

/* Returns a free run of `slab_count` slabs (1 to HK_RUN_MAX_SLABS), closed; NULL when there is none. */
hk_slab_t *hk_sparse_take(hk_sparse_t *sparse, unsigned slab_count);

/* Returns whether a heap has kept the closed run since it last began at these slabs. */
HK_INLINE bool hk_sparse_is_known(const hk_slab_t *head) { return head->resident_pages != 0; }

/* Keeps a closed run if it is sparse and the bound is not exceeded: `room_slabs`, of which all pages may be
 * resident, and a multiple of what the known runs in use have. Moves other free runs to `rows`, with their tails: the
 * oldest to make room, or in several calls all where the program begins to fill its runs, or near a limit on memory.
 * Returns whether the run is kept. */
bool hk_sparse_keep(hk_sparse_t *sparse, hk_slab_t *head, size_t room_slabs, hk_list_t *rows);

/* Moves some free runs to `rows` where none came or was taken for a second, or the bound is exceeded because runs in
 * use ended elsewhere. */
void hk_sparse_pass_time(hk_sparse_t *sparse, uint64_t now_ms, size_t room_slabs, hk_list_t *rows);

/* Moves all free runs to `rows`. */
void hk_sparse_list_all(hk_sparse_t *sparse, hk_list_t *rows);

#endif /* HK_HEAP_SPARSE_RUN_H */
