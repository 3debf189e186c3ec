/* policy/safety.c - L2. The secret that seals free blocks, and the block that ends their lists. */
#include "policy/safety.h"

/* Not all zero from the first instruction on: the end of a list does not look intact even before hk_safety_init. */
hk_keys_t hk_keys = {.link = 1};

#if HK_SAFETY

/* Never 0, from the first instruction on: an all-zero block fails the comparison even before hk_safety_init. */
uintptr_t hk_secret = HK_SEAL_MARK << HK_SEAL_MARK_SHIFT;

hk_block_t hk_list_end;

/* Mixes the kernel's bits by the finalizer of splitmix64 (public domain, S. Vigna): they guard other things in this
 * process too, and free blocks must not show them. `*state` is the generator's. */
static uint64_t mix(uint64_t *state) {
  uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

/* The end of a list must not look intact: other keys, if it does. */
static void init_keys(uint64_t *state) {
  do hk_keys = (hk_keys_t){mix(state), mix(state), mix(state), mix(state)};
  while (hk_block_is_intact(HK_LIST_END));
}

void hk_safety_init(uint64_t random_bits) {
  uint64_t state = random_bits;
  hk_secret = (uintptr_t)(mix(&state) >> (64 - HK_SEAL_MARK_SHIFT)) | HK_SEAL_MARK << HK_SEAL_MARK_SHIFT;
  if (HK_HARDENED) init_keys(&state);
}

#else

void hk_safety_init(uint64_t random_bits) { (void)random_bits; }

#endif
