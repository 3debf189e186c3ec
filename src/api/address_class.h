/* api/address_class.h - L5. What lies at any address: more than verify.h says, slower, and only for texts. */
#ifndef HK_API_ADDRESS_CLASS_H
#define HK_API_ADDRESS_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "hakmem/hakmem.h"
#include "space/slab.h"

typedef enum {
  hk_address_foreign,             /* not ours, or not any more */
  hk_address_free,                /* in memory of ours that belongs to no block now */
  hk_address_slab_end,            /* behind the last block of a span's slab, where no whole one has room */
  hk_address_uncarved,            /* in a block of a span that nobody ever had */
  hk_address_free_block,          /* in a block of a span that is free */
  hk_address_class_before_sample, /* in the room that a block has before the sampled one that lies in it */
  hk_address_live_block
} hk_address_kind_t;

/* Of what is not known the fields are 0. */
typedef struct {
  hk_address_kind_t kind;
  uintptr_t start;      /* of the block; of what is none of ours the slab's */
  size_t bytes;         /* of the block */
  hk_slab_t *head;      /* of a span or a run: its first slab */
  uintptr_t head_start; /* and that one's address */
  size_t offset;        /* of a sampled block: how far before it the one begins that it lies in; 0 of others */
  hk_sample_t sample;   /* if it is one */
} hk_address_class_t;

/* Any value may be asked for, at any time: no lock is taken, nothing is written, and blocks are read by the system. While
 * other threads allocate and free there, the answer may be of different moments. */
hk_address_class_t hk_address_class_of(uintptr_t address);

/* The block that ends where the spot begins; hk_address_foreign when none does. */
hk_address_class_t hk_address_class_before(const hk_address_class_t *where);

/* What a debugger needs to find a spot by reading memory alone, as of a program that has ended: where the descriptors are, and
 * numbers by name. tools/gdb/hakmem_gdb.py reads it; the version is counted up when a name changes its meaning. */
#define HK_LAYOUT_MAGIC "hakmem layout 1"
typedef struct {
  char magic[16];
  const void *region_map;
  const uintptr_t *secret; /* NULL: a build without checks */
  struct {
    char name[24]; /* "" ends the list */
    uint64_t value;
  } number[24];
} hk_layout_t;
extern HAKMEM_EXPORT const hk_layout_t hakmem_layout;

#endif /* HK_API_ADDRESS_CLASS_H */
