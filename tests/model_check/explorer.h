// Runs a scenario's threads as coroutines, in every order that makes a difference, by depth-first search: an execution
// is a list of choices, and the next one differs in the last choice that has an alternative left.
//
// Threads change only before a visible operation: one on an atomic variable, lock or futex that two threads use and one
// of them writes. The search finds these variables on the way, and starts again when it finds one. Of two orders that
// differ only in neighbouring operations that do not depend on each other, it runs one (sleep sets: P. Godefroid,
// "Partial-Order Methods for the Verification of Concurrent Systems", 1996).
#ifndef HK_TESTS_MODEL_CHECK_EXPLORER_H
#define HK_TESTS_MODEL_CHECK_EXPLORER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "model_check/checker.h"

namespace model_check {

constexpr unsigned kThreadsMax = CHECKER_THREADS_MAX;

struct Result {
  std::string violation;    // empty: none
  uint64_t executions = 0;  // those that ran to their end
  uint64_t pruned = 0;      // those given up, since another order of the same operations was run
  uint64_t outcomes = 0;    // one bit each
  size_t shared = 0;        // visible variables
  size_t longest = 0;       // visible operations of one execution
};

struct Effort {
  uint64_t executions_max = 0;  // more are a violation too, since the search is not complete then
  bool every_order = false;     // without sleep sets: also orders that make no difference
  // Receives, unless null, a number for each behaviour: what each thread did and found, in its own order.
  std::unordered_set<uint64_t> *behaviours = nullptr;
};
Result Explore(const scenario_t &scenario, const Effort &effort);

// ---- For the other parts of the checker, while a scenario runs.

enum class Phase { kOff, kSetup, kThreads, kFinish };

// What each access of a scenario reads: inline, because most of the checker's time goes into accesses. Only explorer.cc
// and CountStep write it.
struct Running {
  Phase phase = Phase::kOff;
  unsigned runner = 0;
  unsigned steps = 0;
  uintptr_t stacks = 0, stacks_bytes = 0;
  uintptr_t locals = 0, locals_bytes = 0;
};
extern Running now;

inline Phase CurrentPhase() { return now.phase; }

// Returns the number of the running thread. In Phase::kThreads only.
inline unsigned CurrentThread() { return now.runner; }

// Returns a choice of 0 to count - 1. The search tries each.
unsigned Choose(unsigned count);

// Announces a visible operation of the running thread on `where`. Returns when it is the thread's turn and `*blocked`,
// unless `blocked` is null, is false.
void Arrive(uintptr_t where, bool writes, const bool *blocked = nullptr);

// Ends this execution with a violation.
[[noreturn]] void Fail(const std::string &what);

// Counts a step of the execution. Too many are a violation: a loop that does not end.
constexpr unsigned kStepsMax = 100000;
inline void CountStep() {
  if (++now.steps > kStepsMax) Fail("an execution does not end");
}

// Adds a line to the trace, which a violation prints.
void Record(const char *what, uintptr_t where, uint64_t value, const void *code);

// Returns whether the address is on a coroutine's stack or in a thread-local variable, which no other thread uses.
inline bool IsPrivate(uintptr_t address) {
  return address - now.stacks < now.stacks_bytes || address - now.locals < now.locals_bytes;
}

}  // namespace model_check

#endif
