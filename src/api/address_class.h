/* api/address_class.h - L5. Classifies any address. Says more than verify.h and is slower; for messages and
 * debuggers. */
#ifndef HK_API_ADDRESS_CLASS_H
#define HK_API_ADDRESS_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "hakmem/hakmem.h"
#include "space/slab.h"

typedef enum {
  hk_address_foreign,       /* outside hakmem's memory */
  hk_address_free,          /* in free slabs, or in a free extent */
  hk_address_slab_end,      /* behind the last block of a span's slab, where no whole block fits */
  hk_address_uncarved,      /* in a span, where no block was carved yet */
  hk_address_free_block,    /* in a free block of a span */
  hk_address_before_sample, /* in a block that holds a sampled one, before the sampled block's start */
  hk_address_live_block
} hk_address_kind_t;

/* A field that is not known is 0. */
typedef struct {
  hk_address_kind_t kind;
  uintptr_t start;      /* of the block; without a block, of the slab or its part behind a block */
  size_t bytes;         /* of the block */
  hk_slab_t *head;      /* the descriptor of the first slab of a span or a run */
  uintptr_t head_start; /* the address of that slab */
  size_t offset;        /* of a sampled block: the bytes from the start of the block that holds it; else 0 */
  hk_sample_t sample;   /* of a sampled block */
} hk_address_class_t;

/* Classifies any value, at any time, in any thread. Takes no lock and writes nothing; the kernel copies the blocks'
 * words (os/peek.h). While other threads allocate and free there, the fields may be of different moments. */
hk_address_class_t hk_address_class_of(uintptr_t address);

/* Returns the live or free block that ends where the one at `where` begins; hk_address_foreign when there is none. */
hk_address_class_t hk_address_class_before(const hk_address_class_t *where);

/* What a debugger needs to classify an address from memory alone, for instance from a core file: the addresses of the
 * descriptors, and numbers by name. tools/gdb/hakmem_gdb.py reads it. The magic's version is raised when a name changes
 * its meaning. */
#define HK_LAYOUT_MAGIC "hakmem layout 1"
typedef struct {
  char magic[16];
  const void *region_map;
  const uintptr_t *secret; /* NULL in a build without checks */
  struct {
    char name[24]; /* "" ends the list */
    uint64_t value;
  } number[24];
} hk_layout_t;
extern HAKMEM_EXPORT const hk_layout_t hakmem_layout;

#endif /* HK_API_ADDRESS_CLASS_H */
