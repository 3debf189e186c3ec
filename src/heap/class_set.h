/* heap/class_set.h - L4. Sets of size classes. */
#ifndef HK_HEAP_CLASS_SET_H
#define HK_HEAP_CLASS_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/compiler.h"
#include "policy/size_class.h"

#define HK_CLASS_SET_WORDS ((HK_CLASS_COUNT + 63) / 64)

typedef struct {
  uint64_t words[HK_CLASS_SET_WORDS]; /* class i is bit i % 64 of word i / 64 */
} hk_class_set_t;

HK_INLINE uint64_t hk_class_set_bit(unsigned class_index) { return UINT64_C(1) << class_index % 64; }

HK_INLINE bool hk_class_set_has(const hk_class_set_t *set, unsigned class_index) {
  return (set->words[class_index / 64] & hk_class_set_bit(class_index)) != 0;
}

HK_INLINE void hk_class_set_add(hk_class_set_t *set, unsigned class_index) {
  set->words[class_index / 64] |= hk_class_set_bit(class_index);
}

HK_INLINE void hk_class_set_remove(hk_class_set_t *set, unsigned class_index) {
  set->words[class_index / 64] &= ~hk_class_set_bit(class_index);
}

/* Returns the first class of the set behind `class_index`, or HK_CLASS_COUNT when there is none. */
HK_INLINE unsigned hk_class_set_next(const hk_class_set_t *set, unsigned class_index) {
  for (unsigned i = class_index + 1; i < HK_CLASS_COUNT; i = (i / 64 + 1) * 64) {
    uint64_t rest = set->words[i / 64] >> i % 64;
    if (rest != 0) return i + hk_lowest_bit(rest);
  }
  return HK_CLASS_COUNT;
}

#endif /* HK_HEAP_CLASS_SET_H */
