/* base/arithmetic.h - L0. Sums and products that may overflow, and the smaller or larger of two numbers. */
#ifndef HK_BASE_ARITHMETIC_H
#define HK_BASE_ARITHMETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_INLINE uint64_t hk_add_saturating(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

HK_INLINE uint64_t hk_multiply_saturating(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Returns false when the product does not fit; `*product` is then unspecified. */
HK_INLINE bool hk_multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Returns a - b, or 0 where b is larger. */
HK_INLINE uint64_t hk_subtract_to_zero(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

HK_INLINE uint64_t hk_smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

HK_INLINE uint64_t hk_larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif /* HK_BASE_ARITHMETIC_H */
