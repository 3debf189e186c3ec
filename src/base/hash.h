/* base/hash.h - L0. Hashes of numbers and addresses, for tables inside the process. */
#ifndef HK_BASE_HASH_H
#define HK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Spreads a number over 64 bits. The highest bits are the best: a table of 2^n places takes the upper n. Fibonacci
 * hashing (D. Knuth, The Art of Computer Programming 3, 6.4): the factor is 2^64 divided by the golden ratio. Numbers
 * at regular distances, as addresses are, get places far from each other. */
HK_INLINE uint64_t hk_hash(uint64_t value) { return value * UINT64_C(0x9E3779B97F4A7C15); }

/* Returns a place for the number in a table of `place_count` places, a power of two up to 2^32. */
HK_INLINE size_t hk_hash_place(uint64_t value, size_t place_count) {
  return (size_t)(hk_hash(value) >> 32) & (place_count - 1);
}

/* Returns the hash of a sequence of numbers with one more. Each bit of `more` changes the lower half too. */
HK_INLINE uint64_t hk_hash_add(uint64_t hash, uint64_t more) {
  hash = hk_hash(hash ^ more);
  return hash ^ hash >> 32;
}

#endif /* HK_BASE_HASH_H */
