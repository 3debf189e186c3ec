/* policy/safety.h - L2. Which checks a build has: this header decides, nothing else asks.
 *
 * HK_SAFETY=1 (libhakmem.so, the default): double free, invalid free and damaged free blocks are noticed. HK_SAFETY=0
 * (libhakmem-fast.so): none of them; what is then no block's start in our memory corrupts it.
 *
 * A free block's first two words are `next` and `seal`, with next ^ seal == hk_secret: both words prove each other, so
 * one comparison at pop notices damage to either (an overflow from below reaches `next` first), and one at free notices
 * that the block is free already. A block that is handed out has its seal cleared. A live block can still look free,
 * for memory keeps what it held and a program may copy it: what looks free is searched for (heap/search.h) before it is
 * called a double free.
 */
#ifndef HK_POLICY_SAFETY_H
#define HK_POLICY_SAFETY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

#ifndef HK_SAFETY
#error "this file differs by variant: list it under variant_sources in cmake/HakmemLibraries.cmake"
#endif

/* A free block. Only its first 16 bytes are ours: every block has at least as many. */
typedef struct hk_block {
  struct hk_block *next;
  uintptr_t seal;
} hk_block_t;

/* Whether `offset` bytes into a slab is where a block starts: one multiplication by the class's inverse, ceil(2^64 /
 * size) (D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation", 2019; exact for 32-bit offset and
 * size). */
HK_INLINE bool hk_offset_is_start(uint64_t offset, uint64_t inverse) { return offset * inverse < inverse; }

#if HK_SAFETY

/* Written once before the first block exists. Never 0: an all-zero block must not pass for a free one. */
extern HK_HIDDEN uintptr_t hk_secret;

/* What every list of free blocks ends with: a block that never passes hk_block_is_intact, so "list exhausted" and
 * "damaged" are one comparison. */
extern HK_HIDDEN hk_block_t hk_list_end;
#define HK_LIST_END (&hk_list_end)

HK_INLINE bool hk_block_is_intact(const hk_block_t *block) {
  return ((uintptr_t)block->next ^ block->seal) == hk_secret;
}

/* Links `block` before `next` and seals it. */
HK_INLINE void hk_block_link(hk_block_t *block, hk_block_t *next) {
  block->next = next;
  block->seal = (uintptr_t)next ^ hk_secret;
}

/* To be called when a block is handed out. */
HK_INLINE void hk_block_unseal(hk_block_t *block) { block->seal = 0; }

/* Whether a block that somebody frees looks as if it were free already. */
HK_INLINE bool hk_block_looks_free(const hk_block_t *block) { return hk_block_is_intact(block); }

/* The bits of an address that the region map looks at: any value at all may be looked up. */
HK_INLINE uintptr_t hk_address_bits(uintptr_t address) {
  return address << (64 - HK_ADDRESS_BITS) >> (64 - HK_ADDRESS_BITS);
}

/* Whether a free of the block that starts `offset` bytes into its slab can be right. */
HK_INLINE bool hk_start_is_plausible(uint64_t offset, uint64_t inverse) { return hk_offset_is_start(offset, inverse); }

#else

#define HK_LIST_END ((hk_block_t *)0)

HK_INLINE bool hk_block_is_intact(const hk_block_t *block) { return block != HK_LIST_END; }
HK_INLINE void hk_block_link(hk_block_t *block, hk_block_t *next) { block->next = next; }
HK_INLINE void hk_block_unseal(hk_block_t *block) { (void)block; }
HK_INLINE bool hk_block_looks_free(const hk_block_t *block) {
  (void)block;
  return false;
}
HK_INLINE uintptr_t hk_address_bits(uintptr_t address) { return address; }
HK_INLINE bool hk_start_is_plausible(uint64_t offset, uint64_t inverse) {
  (void)offset;
  (void)inverse;
  return true;
}

#endif

/* Sets the secret from the kernel's random bits. Called once, before the first block exists. */
void hk_safety_init(uint64_t random_bits);

HK_C_END

#endif /* HK_POLICY_SAFETY_H */
