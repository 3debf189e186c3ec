/* api/verify.h - L5. Classifies an address that a program hands in. Reads descriptors, and a block's first words only
 * where a descriptor says that they are hakmem's. */
#ifndef HK_API_VERIFY_H
#define HK_API_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/slab.h"

typedef enum {
  hk_verdict_live,       /* the start of a live block that holds no sample, or the address of a live sampled one */
  hk_verdict_free_block, /* the start of a free block of `bytes` */
  hk_verdict_free,       /* in free slabs, or in a free extent */
  hk_verdict_interior,   /* inside a block that begins at `start`; also at `start`, where the block holds a sample */
  hk_verdict_slab_end,   /* behind the last block of a span's slab, where no whole block fits */
  hk_verdict_foreign     /* outside hakmem's memory */
} hk_verdict_t;

typedef struct {
  hk_verdict_t verdict;
  hk_slab_t *slab; /* live: the descriptor of a run or large block, the head of a span */
  uintptr_t start;
  size_t bytes;
  bool is_guarded;                /* in a guard slot, or in a guard page beside one; `slab` means nothing then */
  struct hk_named *guarded_named; /* the named heap or tag of a guarded block; NULL: none */
  size_t offset; /* live: from `start` to the address, where `bytes` begin; 0 except for a sampled block */
} hk_finding_t;

/* Returns the named heap or tag of a block that was found live; NULL: none. */
struct hk_named *hk_finding_named(const hk_finding_t *finding);

/* Verifies any value. A free of the same block by another thread meanwhile may or may not be noticed. Requires that no
 * other thread unmaps the memory at the address: it is a block of the caller's, to be freed, resized or measured. */
hk_finding_t hk_verify(const void *address);

/* hk_verify for an address whose memory another thread may unmap. The system copies the words of blocks of other
 * threads, which is slower. */
hk_finding_t hk_verify_any(const void *address);

/* hk_verify_any that also finds the large block or free extent around an address without a descriptor. Slow; for
 * messages. Unlike hk_address_class_of (address_class.h), it finds guarded blocks and freed samples, and returns the
 * bytes that the program may use. */
hk_finding_t hk_verify_thoroughly(const void *address);

#endif /* HK_API_VERIFY_H */
