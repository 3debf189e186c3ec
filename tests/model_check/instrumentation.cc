// The functions that code compiled with -fsanitize=thread calls. The model checker is linked in the place of
// ThreadSanitizer's library. So it checks the allocator's own lines, with the orders that they are compiled with, and
// every plain access too.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model_check/machine.h"
#include "model_check/order_model.h"

using namespace model_check;

#define CODE __builtin_return_address(0)

namespace {
uintptr_t Number(const volatile void *address) { return reinterpret_cast<uintptr_t>(address); }
}  // namespace

extern "C" {

void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int) { Fail("not modelled: a fence"); }

#define PLAIN(bytes)                                                                                     \
  void __tsan_read##bytes(void *address) { PlainAccess(Number(address), bytes, false, CODE); }           \
  void __tsan_write##bytes(void *address) { PlainAccess(Number(address), bytes, true, CODE); }           \
  void __tsan_unaligned_read##bytes(void *address) { PlainAccess(Number(address), bytes, false, CODE); } \
  void __tsan_unaligned_write##bytes(void *address) { PlainAccess(Number(address), bytes, true, CODE); } \
  void __tsan_volatile_read##bytes(void *address) { PlainAccess(Number(address), bytes, false, CODE); }  \
  void __tsan_volatile_write##bytes(void *address) { PlainAccess(Number(address), bytes, true, CODE); }  \
  void __tsan_read_write##bytes(void *address) { PlainAccess(Number(address), bytes, true, CODE); }      \
  void __tsan_unaligned_read_write##bytes(void *address) { PlainAccess(Number(address), bytes, true, CODE); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *address, size_t bytes) { PlainAccess(Number(address), bytes, false, CODE); }
void __tsan_write_range(void *address, size_t bytes) { PlainAccess(Number(address), bytes, true, CODE); }

#define UPDATE(bits, name, update)                                                                                  \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *object, uint##bits##_t operand, int order) { \
    return static_cast<uint##bits##_t>(AtomicUpdate(Number(object), bits / 8, update, operand, order, CODE));       \
  }
#define ATOMIC(bits)                                                                                                   \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *object, int order) {                        \
    return static_cast<uint##bits##_t>(AtomicLoad(Number(object), bits / 8, order, CODE));                             \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t *object, uint##bits##_t value, int order) {                 \
    AtomicStore(Number(object), bits / 8, value, order, CODE);                                                         \
  }                                                                                                                    \
  UPDATE(bits, exchange, Update::kExchange)                                                                            \
  UPDATE(bits, fetch_add, Update::kAdd)                                                                                \
  UPDATE(bits, fetch_sub, Update::kSub)                                                                                \
  UPDATE(bits, fetch_and, Update::kAnd)                                                                                \
  UPDATE(bits, fetch_or, Update::kOr)                                                                                  \
  UPDATE(bits, fetch_xor, Update::kXor)                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *object, uint##bits##_t *expected,        \
                                                     uint##bits##_t desired, int order, int order_of_failure) {        \
    CompareResult result =                                                                                             \
        AtomicCompareExchange(Number(object), bits / 8, *expected, desired, order, order_of_failure, false, CODE);     \
    *expected = static_cast<uint##bits##_t>(result.found);                                                             \
    return result.succeeded;                                                                                           \
  }                                                                                                                    \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *object, uint##bits##_t *expected,          \
                                                   uint##bits##_t desired, int order, int order_of_failure) {          \
    CompareResult result =                                                                                             \
        AtomicCompareExchange(Number(object), bits / 8, *expected, desired, order, order_of_failure, true, CODE);      \
    *expected = static_cast<uint##bits##_t>(result.found);                                                             \
    return result.succeeded;                                                                                           \
  }                                                                                                                    \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *object, uint##bits##_t expected,  \
                                                            uint##bits##_t desired, int order, int order_of_failure) { \
    return static_cast<uint##bits##_t>(                                                                                \
        AtomicCompareExchange(Number(object), bits / 8, expected, desired, order, order_of_failure, false, CODE)       \
            .found);                                                                                                   \
  }
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* Compilers turn some assignments into calls of these. The linker's --wrap leads the calls here. */
void *__real_memset(void *target, int byte, size_t bytes);
void *__real_memcpy(void *target, const void *source, size_t bytes);
void *__wrap_memset(void *target, int byte, size_t bytes) {
  if (IsOfMachine(Number(target))) PlainAccess(Number(target), bytes, true, CODE);
  return __real_memset(target, byte, bytes);
}
void *__wrap_memcpy(void *target, const void *source, size_t bytes) {
  if (IsOfMachine(Number(source))) PlainAccess(Number(source), bytes, false, CODE);
  if (IsOfMachine(Number(target))) PlainAccess(Number(target), bytes, true, CODE);
  return __real_memcpy(target, source, bytes);
}

}  // extern "C"
