// What the C memory model allows a thread to see, of the accesses that the instrumentation reports.
//
// An atomic variable is the list of all values that it had in this execution, in modification order. A load may read
// any of them that coherence leaves, and each one is tried: that a store ran first does not mean that it is seen. A
// release hands the thread's clock to whoever reads it with acquire; what a clock does not cover has not happened yet
// for its thread. Two accesses, one of them a write and one of them plain, that no clock orders are a data race, which
// is a violation whatever they read. Not modelled: a load that reads a store which comes after it in time (load
// buffering); sequentially consistent operations and fences, which are violations here, for hakmem has none.
#ifndef HK_TESTS_MODEL_CHECK_ORDER_MODEL_H
#define HK_TESTS_MODEL_CHECK_ORDER_MODEL_H

#include <array>
#include <cstddef>
#include <cstdint>

#include "model_check/explorer.h"

namespace model_check {

struct Clock {
  std::array<uint32_t, kThreadsMax> at{};

  void Join(const Clock &other) {
    for (unsigned i = 0; i < kThreadsMax; i++) {
      if (other.at[i] > at[i]) at[i] = other.at[i];
    }
  }
};

// The running thread's clock: for locks and the system, which order what they do.
Clock &ClockOfThread();

// ---- Accesses. `code` is where they come from. Outside Phase::kThreads they are just done.

void PlainAccess(uintptr_t address, size_t bytes, bool writes, const void *code);
uint64_t AtomicLoad(uintptr_t address, unsigned bytes, int order, const void *code);
void AtomicStore(uintptr_t address, unsigned bytes, uint64_t value, int order, const void *code);

enum class Update { kExchange, kAdd, kSub, kAnd, kOr, kXor };
// The value before.
uint64_t AtomicUpdate(uintptr_t address, unsigned bytes, Update update, uint64_t operand, int order, const void *code);

struct CompareResult {
  bool succeeded;
  uint64_t found;
};
CompareResult AtomicCompareExchange(uintptr_t address, unsigned bytes, uint64_t expected, uint64_t desired, int order,
                                    int order_of_failure, bool is_weak, const void *code);

// What the machine itself finds there: the newest value.
uint64_t NewestValue(uintptr_t address, unsigned bytes);

// ---- Memory that comes and goes (machine.cc).

// The range's contents go: a write to all of it, by the running thread. Afterwards it is zero.
void WipeRange(uintptr_t start, size_t bytes, const void *code);
// As WipeRange, and every access from now on is a violation, until MapRange.
void UnmapRange(uintptr_t start, size_t bytes, const void *code);
void MapRange(uintptr_t start, size_t bytes);

// ---- For the explorer.

void BeginScenario();
void EndSetup();
void BeginExecution();
void RollBack();     // what one execution wrote
void EndScenario();  // and what setup wrote

}  // namespace model_check

#endif
