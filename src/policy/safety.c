/* policy/safety.c - L2. The secret that seals free blocks, and the block that ends their lists. */
#include "policy/safety.h"

#if HK_SAFETY

/* Never 0, from the first instruction on: an all-zero block fails the comparison even before hk_safety_init. */
uintptr_t hk_secret = HK_SEAL_MARK << HK_SEAL_MARK_SHIFT;

hk_block_t hk_list_end;

void hk_safety_init(uint64_t random_bits) {
  /* Mixes the kernel's bits by the finalizer of splitmix64 (public domain, S. Vigna): they guard other things in this
   * process too, and free blocks must not show them. */
  uint64_t mixed = random_bits + 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  mixed ^= mixed >> 31;
  hk_secret = (uintptr_t)(mixed >> (64 - HK_SEAL_MARK_SHIFT)) | HK_SEAL_MARK << HK_SEAL_MARK_SHIFT;
}

#else

void hk_safety_init(uint64_t random_bits) { (void)random_bits; }

#endif
