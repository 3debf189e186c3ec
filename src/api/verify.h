/* api/verify.h - L5. What is known about an address that a program hands in. Reads descriptors, and a block's first
 * words only where a descriptor says that they are ours. */
#ifndef HK_API_VERIFY_H
#define HK_API_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"

typedef enum {
  hk_verdict_live,        /* the start of a block in use, or where a sampled one was handed out */
  hk_verdict_free_block,  /* the start of a block of `bytes` that is free */
  hk_verdict_free_extent, /* in memory of ours that belongs to no block now */
  hk_verdict_interior,    /* inside a block that begins at `start` */
  hk_verdict_foreign      /* not ours, or not any more */
} hk_verdict_t;

typedef struct {
  hk_verdict_t verdict;
  hk_slab_t *slab; /* live: the descriptor of a run or large block, the head of a span */
  uintptr_t start;
  size_t bytes;
  size_t offset; /* live: how far behind `start` the address is; not 0 for a sampled block, whose `bytes` begin there */
} hk_finding_t;

/* Any value may be asked for. Another thread that frees the same block meanwhile may or may not be noticed. */
hk_finding_t hk_verify(const void *address);

/* The same, and finds for an address that has no descriptor the large block that it lies in. For messages: slow. */
hk_finding_t hk_verify_thoroughly(const void *address);

#endif /* HK_API_VERIFY_H */
