/* policy/safety.h - L2. The checks of a build.
 *
 * HK_SAFETY=1 (libhakmem.so, the default): double frees, invalid frees and damaged free blocks are noticed. HK_SAFETY=0
 * (libhakmem-fast.so): none is noticed; a free of an address in hakmem's memory that is no block's start damages that
 * memory. HK_SAFETY=2 (libhakmem-secure.so): the build is hardened against attackers, docs/hardened.md.
 *
 * With HK_SAFETY=1 a free block's first two words are `next` and `seal`, with next ^ seal == hk_secret: the two words
 * check each other. So one comparison at pop notices damage to either (an overflow from below reaches `next` first),
 * and one at free notices that the block is free already. A block that is handed out has its seal cleared. A live block
 * can still look free, because memory keeps its contents and a program may copy them. So heap/search.h searches for a
 * block that looks free, before it is reported as a double free.
 *
 * The last two bytes of every seal are the same. free compares these first, with a constant: one instruction and a
 * branch. The slow path compares the words when they match.
 */
#ifndef HK_POLICY_SAFETY_H
#define HK_POLICY_SAFETY_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

#ifndef HK_SAFETY
#error "this file differs by variant: list it under variant_sources in cmake/HakmemLibraries.cmake"
#endif

/* True in a hardened build. Code tests it by a plain `if`: other builds compile such code, and leave it out. */
#define HK_HARDENED (HK_SAFETY > 1)

/* The end of a small block, which the program does not get: 0 in a build that is not hardened. */
#define HK_CANARY_BYTES ((size_t)(HK_HARDENED ? 8 : 0))

/* A free block. hakmem writes only its first 16 bytes: every block has at least as many. */
typedef struct hk_block {
  struct hk_block *next;
  uintptr_t seal;
} hk_block_t;

/* Tells where the blocks of a class start in a slab: hk_class_starts. `inverse` is ceil(2^32 / size). In the product of
 * an offset and `inverse` the upper 32 bits are the index of the block. The lower ones are index * (inverse * size -
 * 2^32) at the start of a block, and at least `inverse` elsewhere (D. Lemire, O. Kaser, N. Kurz, "Faster remainder by
 * direct computation", 2019). `limit` is one more than they are at the start of the last whole block. At the next start
 * they are more, because only a size that divides a slab gives inverse * size == 2^32. Exact for offsets up to a slab
 * and sizes up to half of one. */
typedef struct {
  uint32_t inverse;
  uint32_t limit;
} hk_starts_t;

/* Returns whether a whole block starts `offset` bytes into a slab. Requires an offset below HK_SLAB_BYTES. */
HK_INLINE bool hk_starts_has(const hk_starts_t *starts, uint32_t offset) {
  return offset * starts->inverse < starts->limit;
}

/* Returns `bytes` / block size. Requires at most HK_SLAB_BYTES. */
HK_INLINE unsigned hk_starts_divide(const hk_starts_t *starts, uint32_t bytes) {
  return (unsigned)((uint64_t)bytes * starts->inverse >> 32);
}

/* The secrets of a hardened build. Written once, before the first block exists. */
typedef struct {
  uintptr_t place;
  uintptr_t link;
  uintptr_t mask;
  uintptr_t canary;
} hk_keys_t;
extern HK_HIDDEN hk_keys_t hk_keys;

/* Returns both halves of the product, combined: it depends on every bit of either factor, and a factor cannot be
 * divided out. It is no cryptographic function. */
HK_INLINE uintptr_t hk_fold_product(uintptr_t a, uintptr_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uintptr_t)product ^ (uintptr_t)(product >> 64);
}

/* The bits of a canary that say whether realloc has resized the block, and whether it was refused a smaller block and
 * left this one. */
#define HK_CANARY_RESIZED ((uintptr_t)1 << 8)
#define HK_CANARY_UNSHRUNK ((uintptr_t)1 << 9)
#define HK_CANARY_NOTES (HK_CANARY_RESIZED | HK_CANARY_UNSHRUNK)

/* The bit of a canary that is set while the block holds a sample (heap/sample_mark.h). Such a canary is not whole. */
#define HK_CANARY_SAMPLE ((uintptr_t)1 << 10)

/* Returns the canary of a small block in a hardened build. Its byte at the lowest address is zero: a text that has no
 * end of its own ends there. HK_CANARY_NOTES and HK_CANARY_SAMPLE are clear. */
HK_INLINE uintptr_t hk_canary_of(const void *block) {
  return hk_fold_product((uintptr_t)block ^ hk_keys.canary, hk_keys.link) << 11;
}

#if HK_SAFETY

/* The secret's highest 16 bits; the others are random. Addresses have zeros there, so every seal ends in these bytes.
 * In this order they are no part of a text in UTF-8, and as part of a number they are rare. */
#define HK_SEAL_TOP ((uintptr_t)0xd6e9)
#define HK_SEAL_TOP_SHIFT 48
static_assert(HK_ADDRESS_BITS <= HK_SEAL_TOP_SHIFT, "no address reaches the top bits");

/* Written once, before the first block exists. */
extern HK_HIDDEN uintptr_t hk_secret;

/* The end of every list of free blocks: a block that never passes hk_block_is_intact. So one comparison finds an
 * exhausted list and a damaged block. */
extern HK_HIDDEN hk_block_t hk_list_end;
#define HK_LIST_END (&hk_list_end)

#if HK_SAFETY == 1

HK_INLINE hk_block_t *hk_block_next(const hk_block_t *block) { return block->next; }

HK_INLINE bool hk_block_is_intact(const hk_block_t *block) {
  return ((uintptr_t)block->next ^ block->seal) == hk_secret;
}

/* Links `block` before `next` and seals it. */
HK_INLINE void hk_block_link(hk_block_t *block, hk_block_t *next) {
  block->next = next;
  block->seal = (uintptr_t)next ^ hk_secret;
}

/* Returns whether a block is intact, and sets `*next` to its link. */
HK_INLINE bool hk_block_open(const hk_block_t *block, hk_block_t **next) {
  *next = (hk_block_t *)(block->seal ^ hk_secret);
  return block->next == *next;
}

/* Clears the seal of a block that is handed out. */
HK_INLINE void hk_block_unseal(hk_block_t *block) { block->seal = 0; }

#else

/* The link is masked, and the seal depends on the link, on the block's address and on two secrets. So the words of a
 * free block do not show an address, and mean nothing in another block. */
HK_INLINE hk_block_t *hk_block_next(const hk_block_t *block) {
  return (hk_block_t *)((uintptr_t)block->next ^ hk_keys.mask);
}
HK_INLINE uintptr_t hk_block_seal(const hk_block_t *block, const hk_block_t *next) {
  return hk_fold_product((uintptr_t)block ^ hk_keys.place, (uintptr_t)next ^ hk_keys.link);
}
HK_INLINE bool hk_block_open(const hk_block_t *block, hk_block_t **next) {
  *next = hk_block_next(block);
  return block->seal == hk_block_seal(block, *next);
}
HK_INLINE bool hk_block_is_intact(const hk_block_t *block) {
  hk_block_t *next;
  return hk_block_open(block, &next);
}
HK_INLINE void hk_block_link(hk_block_t *block, hk_block_t *next) {
  block->next = (hk_block_t *)((uintptr_t)next ^ hk_keys.mask);
  block->seal = hk_block_seal(block, next);
}
HK_INLINE void hk_block_unseal(hk_block_t *block) { *block = (hk_block_t){NULL, 0}; }

#endif

/* Makes a linked block a damaged one. */
HK_INLINE void hk_block_break_seal(hk_block_t *block) { block->seal ^= 1; }

/* Returns whether a block that the program frees looks free already. */
HK_INLINE bool hk_block_looks_free(const hk_block_t *block) { return hk_block_is_intact(block); }

/* The fast half of hk_block_looks_free. Returns true for every block that looks free, and seldom for another. */
HK_INLINE bool hk_block_may_look_free(const hk_block_t *block) {
  return block->seal >> HK_SEAL_TOP_SHIFT == HK_SEAL_TOP;
}

/* Lets a block that is in use pass hk_block_may_look_free. It does not look free: its words are equal. */
HK_INLINE void hk_block_let_look_free(hk_block_t *block) {
  uintptr_t top = HK_SEAL_TOP << HK_SEAL_TOP_SHIFT;
  *block = (hk_block_t){(hk_block_t *)top, top};
}

/* Returns the bits of an address that the region map uses, so that any value can be looked up. */
HK_INLINE uintptr_t hk_address_bits(uintptr_t address) {
  return address << (64 - HK_ADDRESS_BITS) >> (64 - HK_ADDRESS_BITS);
}

/* Returns whether a block can start `offset` bytes into its slab. Always true in a build without checks. */
HK_INLINE bool hk_start_is_plausible(const hk_starts_t *starts, uint32_t offset) {
  return hk_starts_has(starts, offset);
}

#else

#define HK_LIST_END ((hk_block_t *)0)

HK_INLINE hk_block_t *hk_block_next(const hk_block_t *block) { return block->next; }
HK_INLINE bool hk_block_is_intact(const hk_block_t *block) { return block != HK_LIST_END; }
HK_INLINE void hk_block_link(hk_block_t *block, hk_block_t *next) { block->next = next; }
HK_INLINE void hk_block_break_seal(hk_block_t *block) { (void)block; }
HK_INLINE bool hk_block_open(const hk_block_t *block, hk_block_t **next) {
  *next = HK_LIST_END;
  if (block == HK_LIST_END) return false;
  *next = block->next;
  return true;
}
HK_INLINE void hk_block_unseal(hk_block_t *block) { (void)block; }
HK_INLINE bool hk_block_looks_free(const hk_block_t *block) {
  (void)block;
  return false;
}
HK_INLINE bool hk_block_may_look_free(const hk_block_t *block) { return hk_block_looks_free(block); }
HK_INLINE void hk_block_let_look_free(hk_block_t *block) { (void)block; }
HK_INLINE uintptr_t hk_address_bits(uintptr_t address) { return address; }
HK_INLINE bool hk_start_is_plausible(const hk_starts_t *starts, uint32_t offset) {
  (void)starts;
  (void)offset;
  return true;
}

#endif

/* Clears the seal of memory that begins like a free block and is none. */
HK_INLINE void hk_block_unseal_if_free(hk_block_t *block) {
  if (hk_block_looks_free(block)) hk_block_unseal(block);
}

/* Sets the secret from the kernel's random bits. Called once, before the first block exists. */
void hk_safety_init(uint64_t random_bits);

HK_C_END

#endif /* HK_POLICY_SAFETY_H */
