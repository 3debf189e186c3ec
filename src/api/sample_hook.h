/* api/sample_hook.h - L5. The allocator's one hook for the heap profile: the events of sampled blocks, and their
 * lookup. inspect/ defines the functions; api/no_instruments.c does in a build without instruments.
 *
 * heap/sample_countdown.h and api/sampled.h choose the blocks. A sampled block is an ordinary one, a little longer. Its
 * address is not where the block starts, so every use of it ends in api/verify.h, which looks it up here.
 *
 * Any thread calls these functions, outside any heap's slow path. They take no lock.
 */
#ifndef HK_API_SAMPLE_HOOK_H
#define HK_API_SAMPLE_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* What a sampled block stands for. Sizes are in bytes. */
typedef struct {
  uint64_t requested_bytes;
  uint64_t block_bytes;
  uint64_t weight_q16; /* the number of blocks, with 16 fractional bits */
} hk_sample_weight_t;

/* A call stack with its sums (unwind/site.h); opaque to the allocator. */
typedef struct hk_site hk_site_t;

typedef struct {
  uintptr_t address; /* the address that the program has */
  uint64_t offset;   /* from the start of the block that the sample lies in, in bytes */
  hk_sample_weight_t weight;
  hk_site_t *site;
  uint64_t born_ms;
} hk_sample_t;

typedef enum { hk_sample_none, hk_sample_live, hk_sample_freed } hk_sample_life_t;

/* Returns whether the calling thread runs code of the profile. Blocks that it, or a signal handler, allocates meanwhile
 * are not sampled. */
bool hk_sample_hook_is_inside(void);

/* Returns the site of the calling stack, for a guard slot; NULL in a build without instruments. */
hk_site_t *hk_sample_hook_site(void);

/* Prefetches what the next hk_sample_hook_note of the thread will read. */
void hk_sample_hook_prefetch(void);

/* Enters the sample at `address`, `offset` bytes behind the start of its block, and marks the block
 * (heap/sample_mark.h), where `offset` is not 0. `bytes` is the size of the block that an unsampled request would have
 * got. A weight of 0 stands for nothing; such a sample is entered so that it can be freed. Returns false when there is
 * no room. */
bool hk_sample_hook_note(uintptr_t address, size_t offset, size_t requested, size_t bytes, uint64_t weight_q16);

/* Removes a sample that is about to be freed, or to change its place or size (`is_freed` is false), and the mark of its
 * block. Returns false when another thread has removed it. */
bool hk_sample_hook_forget(uintptr_t address, bool is_freed);

struct hk_named;

/* Writes to stderr where some sampled blocks of a named heap, which is about to end, were allocated. */
void hk_sample_hook_print_named(const struct hk_named *named);

/* Removes all samples in the blocks of a named heap, which are about to be freed. */
void hk_sample_hook_forget_named(const struct hk_named *named);

/* Forgets how stacks are walked through the code of each module. Called before a module is loaded: it may get the
 * addresses of one that was unloaded. */
void hk_sample_hook_forget_code(void);

/* Looks up any value, and fills `*sample` for a live or freed sample. While another thread frees the sample, either
 * state may be returned. */
hk_sample_life_t hk_sample_hook_find(uintptr_t address, hk_sample_t *sample);

/* Finds the live sample in a block of `bytes` bytes. It begins a power of two of bytes behind the start of the block.
 * Returns false when there is none. */
HK_INLINE bool hk_sample_hook_find_in(uintptr_t start, size_t bytes, hk_sample_t *sample) {
  for (size_t offset = HK_BLOCK_ALIGNMENT; offset < bytes; offset *= 2) {
    bool is_live = hk_sample_hook_find(start + offset, sample) == hk_sample_live;
    if (is_live && sample->offset == offset) return true;
  }
  return false;
}

HK_C_END

#endif /* HK_API_SAMPLE_HOOK_H */
