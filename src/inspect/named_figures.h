/* inspect/named_figures.h - L8. The figures of named heaps and tags: those with one name add up. Where there are more
 * names than rows, those with the most memory have a row each. The rest of the heaps has a row, and the rest of the
 * tags. */
#ifndef HK_INSPECT_NAMED_FIGURES_H
#define HK_INSPECT_NAMED_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/named.h"
#include "inspect/census.h"
#include "inspect/tag_counts.h"

typedef struct {
  char name[HK_NAMED_NAME_BYTES];
  bool is_tag;
  bool is_rest;         /* of all that have no row; without a name */
  uint64_t count;       /* named heaps or tags of that name */
  uint64_t parts;       /* of threads, or without one */
  uint64_t live_blocks; /* blocks in use */
  uint64_t live_bytes;
  uint64_t allocated_blocks; /* of a tag, as the next three; of a named heap 0: it does not count them */
  uint64_t allocated_bytes;
  uint64_t freed_blocks;
  uint64_t freed_bytes;
  uint64_t memory; /* slabs of spans, and larger blocks */
  uint64_t peak;   /* sum of each one's highest `memory` */
  uint64_t larger_bytes;
  uint64_t soft_limit; /* sum; 0: none */
  uint64_t hard_limit;
  uint64_t soft_count;
  uint64_t refused_count;
} hk_named_figures_t;

/* Chosen: names that have a row, and the counters that tell which names have the most. */
#define HK_NAMED_SHOWN 63
#define HK_NAMED_SUMS 1024

typedef struct {
  unsigned count;
  hk_named_figures_t of[HK_NAMED_SHOWN + 2];
  uint64_t weight[HK_NAMED_SHOWN];      /* of the names with a row */
  hk_tag_counts_t tags[HK_NAMED_SHOWN]; /* of those that have a row */
  uint64_t sums[2][HK_NAMED_SUMS];      /* memory, by two hashes of the name */
} hk_named_table_t;

/* Fills the table from the records and a census. Figures are of different moments while threads work on them. */
void hk_named_figures_take(hk_named_table_t *table, const hk_census_heaps_t *heaps);

/* The texts of the figures. */
typedef struct {
  char name[20];
  char help[64];
  uint16_t offset; /* in hk_named_figures_t */
  bool is_bytes;
  bool is_event;  /* it only grows */
  bool is_of_tag; /* named heaps have none */
} hk_named_text_t;

/* Ends with an entry whose name is empty. */
extern HK_HIDDEN const hk_named_text_t hk_named_texts[];

HK_INLINE uint64_t hk_named_value(const hk_named_text_t *text, const hk_named_figures_t *figures) {
  return *(const uint64_t *)((const char *)figures + text->offset);
}

#endif /* HK_INSPECT_NAMED_FIGURES_H */
