/* heap/run_fill.h - L4. How much of its runs a program writes to, and how many free ones its heap may keep for that.
 *
 * A program may write to few pages of its runs: a buffer that is rarely full, an array that begins small. Where free
 * runs of all lengths share their slabs, each new run has its first pages elsewhere, until all pages of all runs are
 * resident. Where free runs keep their length, the pages that are written are the same ones again. That takes more
 * addresses than the runs in use have, and the pages that the kept ones have written. A heap keeps as many as the pages
 * that its runs in use have not written are worth (docs/experiments/2026-11-28-runs-that-are-not-filled.md).
 *
 * A heap's record belongs to the thread that has the heap. All zero: nothing is known yet.
 */
#ifndef HK_HEAP_RUN_FILL_H
#define HK_HEAP_RUN_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"

typedef struct {
  uint32_t freed;      /* runs that the heap's thread has freed */
  uint32_t next_look;  /* the value of `freed` at which a run is looked at */
  uint8_t looks_ahead; /* how many follow it without a pause */
  /* Runs that were looked at, their pages, and those of them that were resident. Halved now and then: the last runs
   * count most. No runs: nothing is known. */
  uint32_t runs;
  uint32_t pages;
  uint32_t resident_pages;
  uint32_t in_use_slabs; /* of the whole process, without what the heap keeps for runs: at the last look */
  uint32_t runs_at_most; /* in use by the heap's thread at once, since the heap gave back what it kept */
  bool is_limited;       /* the process has a limit on its addresses */
  bool is_vain;          /* more were needed than the pages are worth */
} hk_run_fill_t;

/* Counts a run that is being freed, and looks at it now and then. `kept_slabs`: what the heap keeps for runs. */
void hk_run_fill_note_freed(hk_run_fill_t *fill, const hk_slab_t *head, size_t kept_slabs);

/* Returns how many free slabs the heap may keep for runs, at least `room`. `in_use`: the runs that the heap's thread
 * has requested and not freed. */
size_t hk_run_fill_room(hk_run_fill_t *fill, uint32_t in_use, size_t room);

/* Notes that `more_slabs` find no room, so that the heap gives back the `kept_slabs` of runs. */
void hk_run_fill_note_too_short(hk_run_fill_t *fill, size_t kept_slabs, size_t more_slabs, size_t room);

#endif /* HK_HEAP_RUN_FILL_H */
