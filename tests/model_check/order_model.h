// Models what the C memory model allows a thread to see, for the accesses that the instrumentation reports.
//
// An atomic variable is the list of all values that it had in this execution, in modification order. A load may read
// any of them that coherence allows, and the search tries each: a load may miss a store that ran before it. A release
// passes the thread's clock to a thread that reads the value with acquire. For a thread, only what its clock covers has
// happened. Two accesses, one of them a write and one of them plain, that no clock orders are a data race. That is a
// violation, whatever they read.
//
// Not modelled: a load that reads a store which comes after it in time (load buffering). Sequentially consistent
// operations and fences are violations here; hakmem has none.
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

// Returns the running thread's clock, for locks and the system, which order their operations by it.
Clock &ClockOfThread();

// ---- Accesses. `code` is the address of their code. Outside Phase::kThreads they take effect without a choice.

void PlainAccess(uintptr_t address, size_t bytes, bool writes, const void *code);
uint64_t AtomicLoad(uintptr_t address, unsigned bytes, int order, const void *code);
void AtomicStore(uintptr_t address, unsigned bytes, uint64_t value, int order, const void *code);

enum class Update { kExchange, kAdd, kSub, kAnd, kOr, kXor };
// Returns the value before the update.
uint64_t AtomicUpdate(uintptr_t address, unsigned bytes, Update update, uint64_t operand, int order, const void *code);

struct CompareResult {
  bool succeeded;
  uint64_t found;
};
CompareResult AtomicCompareExchange(uintptr_t address, unsigned bytes, uint64_t expected, uint64_t desired, int order,
                                    int order_of_failure, bool is_weak, const void *code);

// Returns the newest value, which the machine itself uses.
uint64_t NewestValue(uintptr_t address, unsigned bytes);

// ---- Mapped and unmapped memory (machine.cc).

// Clears the range: a write to all of it by the running thread. Afterwards it is zero.
void WipeRange(uintptr_t start, size_t bytes, const void *code);
// Does the same, and makes every access a violation until MapRange.
void UnmapRange(uintptr_t start, size_t bytes, const void *code);
void MapRange(uintptr_t start, size_t bytes);

// ---- For the explorer.

void BeginScenario();
void EndSetup();
void BeginExecution();
void RollBack();     // undoes the writes of one execution
void EndScenario();  // undoes those of setup, too

}  // namespace model_check

#endif
