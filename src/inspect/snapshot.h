/* inspect/snapshot.h - L8. All figures at one moment, from the counters of the layers below. Every form of report
 * prints a snapshot. */
#ifndef HK_INSPECT_SNAPSHOT_H
#define HK_INSPECT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/count.h"
#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "inspect/census.h"
#include "inspect/estimate.h"
#include "inspect/named_figures.h"
#include "policy/learn.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/superslab.h"

/* Sums of counters, which cost little to read. */
typedef struct {
#if HK_COUNT
  uint64_t cost[hk_counter_count];
#endif
  uint64_t counter[hk_stat_count];
  hk_superslab_usage_t superslab;
  hk_large_usage_t large;
  size_t record_bytes; /* address space of the allocator's own records */
  size_t heap_count;
  size_t heap_idle_count;
  size_t heap_lost_count;
} hk_totals_t;

/* Too large for a thread's stack. The arrays of heaps follow it in the same mapping. */
typedef struct {
  size_t mapped_bytes;
  hk_totals_t totals;
  hk_census_t census;
  hk_learn_t learned;
  hakmem_stats_t figures;
  hakmem_stats_band_t band[HAKMEM_STATS_BANDS];
  hakmem_stats_class_t of_class[HK_CLASS_COUNT];
  unsigned class_count;      /* classes that have spans */
  hakmem_stats_heap_t *heap; /* oldest first */
  size_t heap_count;         /* without heaps that were added during the snapshot */
  hk_census_heaps_t heap_census;
  hk_estimates_t estimates;
  hk_named_table_t named;
  bool has_purge_thread;
  bool has_estimates; /* a profile runs and has live samples */
} hk_snapshot_t;

/* Stores the time of the process's start. */
void hk_snapshot_note_start(void);

/* Returns the sums over the process. Threads go on meanwhile, so the sums need not be of one moment. */
hk_totals_t hk_totals_take(void);

/* Takes a snapshot from a survey of all memory. Returns NULL when the system refuses memory for it. */
hk_snapshot_t *hk_snapshot_take(void);
void hk_snapshot_drop(hk_snapshot_t *snapshot);

/* ---- The texts of the figures, from figure.def. */

typedef enum { hk_figure_COUNT, hk_figure_BYTES, hk_figure_MS, hk_figure_WORD } hk_figure_unit_t;

/* Arrays, because the dynamic linker has to write each pointer in a table before the program starts. */
typedef struct {
  char section[12]; /* of figures of the process */
  char name[24];
  char help[144];
  uint16_t offset; /* in its struct */
  uint8_t unit;    /* a hk_figure_unit_t */
  uint8_t words;   /* of a WORD: its list of words, for hk_figure_word */
  /* figures of the process: known while has_estimates is set; other figures: known where they are not 0 */
  bool is_estimate;
} hk_figure_text_t;

/* A table ends with an entry whose name is empty. */
extern HK_HIDDEN const hk_figure_text_t hk_figures_of_process[];
extern HK_HIDDEN const hk_figure_text_t hk_figures_of_band[];
extern HK_HIDDEN const hk_figure_text_t hk_figures_of_class[];
extern HK_HIDDEN const hk_figure_text_t hk_figures_of_heap[];

HK_INLINE uint64_t hk_figure_value(const hk_figure_text_t *figure, const void *values) {
  return *(const uint64_t *)((const char *)values + figure->offset);
}

/* Returns the word for a value of a figure whose unit is WORD. */
const char *hk_figure_word(const hk_figure_text_t *figure, uint64_t value);

/* For a figure of the process. */
HK_INLINE bool hk_figure_is_known(const hk_figure_text_t *figure, const hk_snapshot_t *snapshot) {
  return !figure->is_estimate || snapshot->has_estimates;
}

/* For a figure of a band, a class or a heap. */
HK_INLINE bool hk_figure_is_known_of(const hk_figure_text_t *figure, const void *values) {
  return !figure->is_estimate || hk_figure_value(figure, values) != 0;
}

#endif /* HK_INSPECT_SNAPSHOT_H */
