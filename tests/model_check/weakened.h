/* The wrong operations that mutants have in the place of those of base/atomic.h: mistakes that an author could make. */
#ifndef HK_TESTS_MODEL_CHECK_WEAKENED_H
#define HK_TESTS_MODEL_CHECK_WEAKENED_H

#include "base/atomic.h"

#define RELAXED_EXCHANGE(object, value) atomic_exchange_explicit((object), (value), memory_order_relaxed)
#define RELAXED_COMPARE_EXCHANGE(object, expected, desired) \
  atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_relaxed, memory_order_relaxed)

/* The same for hk_publish_once, which does not fail without a reason. */
#define RELAXED_PUBLISH_ONCE(object, expected, desired) \
  atomic_compare_exchange_strong_explicit((object), (expected), (desired), memory_order_relaxed, memory_order_relaxed)

/* A load and a store, with room for other threads' operations in between. */
#define TWO_STEP_EXCHANGE(object, value)                                   \
  __extension__({                                                          \
    __typeof__(hk_load_acquire(object)) before_ = hk_load_acquire(object); \
    hk_store_release((object), (value));                                   \
    before_;                                                               \
  })
#define TWO_STEP_COMPARE_EXCHANGE(object, expected, desired) \
  (hk_load_acquire(object) == *(expected) && (hk_store_release((object), (desired)), true))

/* One attempt, and no second one after a failure. */
#define COMPARE_EXCHANGE_ONCE(object, expected, desired) \
  ((void)hk_compare_exchange_weak_release((object), (expected), (desired)), true)
#define STORE_INSTEAD(object, expected, desired) ((void)(expected), hk_store_release((object), (desired)), true)

#endif
