/* base/atomic.h - L0. The project's atomic operations, with the memory order spelled in each name. docs/concurrency.md
 * lists for every atomic variable its writers and the partner of each order.
 *
 * Declare with _Atomic(type). A relaxed load or store is a plain move on x86-64 and arm64: it says "another thread may
 * access this", and costs nothing.
 *
 * Compiled with -fsanitize=thread, each operation is a call that names the address and the order. The model checker
 * (tests/model_check) answers these calls in the place of ThreadSanitizer, so it runs the lines that are shipped.
 */
#ifndef HK_BASE_ATOMIC_H
#define HK_BASE_ATOMIC_H

#ifdef __cplusplus
/* C++ has the same operations on the same layout under these names. The unit tests read the project's structs through
 * them. */
#include <atomic>
#define _Atomic(type) std::atomic<type>
using std::atomic_signal_fence;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;
#else
#include <stdatomic.h>
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define hk_load_relaxed(object) atomic_load_explicit((object), memory_order_relaxed)
#define hk_load_acquire(object) atomic_load_explicit((object), memory_order_acquire)
#define hk_store_relaxed(object, value) atomic_store_explicit((object), (value), memory_order_relaxed)
#define hk_store_release(object, value) atomic_store_explicit((object), (value), memory_order_release)

#define hk_exchange_acquire(object, value) atomic_exchange_explicit((object), (value), memory_order_acquire)
#define hk_exchange_release(object, value) atomic_exchange_explicit((object), (value), memory_order_release)
#define hk_exchange_acq_rel(object, value) atomic_exchange_explicit((object), (value), memory_order_acq_rel)

/* On failure `*expected` holds the value found, read relaxed. The weak form may also fail without a difference. */
#define hk_compare_exchange_weak_release(object, expected, desired) \
  atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_release, memory_order_relaxed)
#define hk_compare_exchange_weak_acq_rel(object, expected, desired) \
  atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_acq_rel, memory_order_relaxed)
/* The strong form. A failure reads with acquire: the loser uses what the winner published. */
#define hk_publish_once(object, expected, desired) \
  atomic_compare_exchange_strong_explicit((object), (expected), (desired), memory_order_acq_rel, memory_order_acquire)
#define hk_compare_exchange_acquire(object, expected, desired) \
  atomic_compare_exchange_strong_explicit((object), (expected), (desired), memory_order_acquire, memory_order_relaxed)

/* Reads an _Atomic pointer or number by a read-modify-write, which has a place in the order of the object's changes. It
 * returns the last value in that order. A thread whose change comes later sees what this thread wrote before. */
#define hk_load_in_turn(object) atomic_fetch_add_explicit((object), 0, memory_order_acq_rel)

#define hk_add_relaxed(object, value) atomic_fetch_add_explicit((object), (value), memory_order_relaxed)
#define hk_or_relaxed(object, value) atomic_fetch_or_explicit((object), (value), memory_order_relaxed)
#define hk_and_relaxed(object, value) atomic_fetch_and_explicit((object), (value), memory_order_relaxed)
#define hk_sub_relaxed(object, value) atomic_fetch_sub_explicit((object), (value), memory_order_relaxed)

/* Loads a field that its owner writes plainly, maybe at this moment: the reader checks what it finds. */
#define hk_load_racy(object) __atomic_load_n((object), __ATOMIC_RELAXED)

/* Returns `base` plus the value of an _Atomic(intptr_t), loaded relaxed. On x86-64 this is one instruction, which
 * compilers do not make of an atomic load. */
HK_INLINE uintptr_t hk_add_relaxed_load(uintptr_t base, const _Atomic(intptr_t) *object) {
#if defined(__x86_64__) && !HK_SANITIZED
  __asm__("addq %1, %0" : "+r"(base) : "m"(*object) : "cc");
  return base;
#else
  return base + (uintptr_t)hk_load_relaxed(object);
#endif
}

/* Returns whether `value` is the value of an _Atomic pointer, loaded relaxed. On x86-64 one instruction, as above. */
HK_INLINE bool hk_is_relaxed_value(const void *value, const void *object) {
#if defined(__x86_64__) && !HK_SANITIZED
  bool is_equal;
  __asm__("cmpq %2, %1" : "=@cce"(is_equal) : "r"(value), "m"(*(const uintptr_t *)object));
  return is_equal;
#else
  return value == __atomic_load_n((void *const *)object, __ATOMIC_RELAXED);
#endif
}

/* Returns whether `value` is below an _Atomic(size_t), loaded relaxed. On x86-64 one instruction, as above. */
HK_INLINE bool hk_is_below_relaxed_value(size_t value, const _Atomic(size_t) *object) {
#if defined(__x86_64__) && !HK_SANITIZED
  bool is_below;
  __asm__("cmpq %2, %1" : "=@ccb"(is_below) : "r"(value), "m"(*object));
  return is_below;
#else
  return value < hk_load_relaxed(object);
#endif
}

/* Adds to a variable that has one writer and any readers, without a locked read-modify-write. */
#define hk_bump_relaxed(object, value) hk_store_relaxed((object), hk_load_relaxed(object) + (value))

/* Orders this thread's own stores for an observer that sees the thread stopped between two instructions: the child of a
 * fork, which inherits the memory but not the thread. Costs no instruction. */
#define hk_keep_store_order() atomic_signal_fence(memory_order_release)

/* Orders loads too, between this thread and its own signal handlers. Costs no instruction. */
#define hk_keep_order() atomic_signal_fence(memory_order_seq_cst)

#endif /* HK_BASE_ATOMIC_H */
