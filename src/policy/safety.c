/* policy/safety.c - L2. The secret that seals free blocks, and the block that ends their lists. */
#include "policy/safety.h"

#include "base/random.h"

/* Not all zero from the first instruction on: the end of a list does not look intact even before hk_safety_init. */
hk_keys_t hk_keys = {.link = 1};

#if HK_SAFETY

/* Never 0, from the first instruction on: an all-zero block fails the comparison even before hk_safety_init. */
uintptr_t hk_secret = HK_SEAL_TOP << HK_SEAL_TOP_SHIFT;

hk_block_t hk_list_end;

/* The end of a list must not look intact: other keys, if it does. */
static void init_keys(uint64_t *state) {
  do hk_keys = (hk_keys_t){hk_random(state), hk_random(state), hk_random(state), hk_random(state)};
  while (hk_block_is_intact(HK_LIST_END));
}

void hk_safety_init(uint64_t random_bits) {
  /* Mixed, because the kernel's bits guard other things in this process too, and free blocks must not show them. */
  uint64_t state = random_bits;
  hk_secret = (uintptr_t)(hk_random(&state) >> (64 - HK_SEAL_TOP_SHIFT)) | HK_SEAL_TOP << HK_SEAL_TOP_SHIFT;
  if (HK_HARDENED) init_keys(&state);
}

#else

void hk_safety_init(uint64_t random_bits) { (void)random_bits; }

#endif
