// Runs a scenario's threads as coroutines, in every order that makes a difference, by depth-first search: an execution
// is a list of choices, and the next one differs in the last choice that has an alternative left.
//
// Threads change only before a visible operation: one on an atomic variable, lock or futex that two threads use and one
// of them writes (which those are is found out on the way: when one is found, the search starts again). Of two orders
// that differ only in neighbouring operations that do not depend on each other, one is run (sleep sets: P. Godefroid,
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
  uint64_t executions = 0;  // to their end
  uint64_t pruned = 0;      // given up: another order of the same operations was run
  uint64_t outcomes = 0;    // one bit each
  size_t shared = 0;        // visible variables
  size_t longest = 0;       // visible operations of one execution
};

struct Effort {
  uint64_t executions_max = 0;  // more are a violation too, for then not everything was looked at
  bool every_order = false;     // no sleep sets: also orders that make no difference
  // What differs, if somebody asks: what each thread did and found, in its own order; one number for each.
  std::unordered_set<uint64_t> *behaviours = nullptr;
};
Result Explore(const scenario_t &scenario, const Effort &effort);

// ---- For the parts of the checker, while a scenario runs.

enum class Phase { kOff, kSetup, kThreads, kFinish };
Phase CurrentPhase();

// The number of the running thread. In Phase::kThreads only.
unsigned CurrentThread();

// A choice of `count` possibilities, 0 to count - 1: each is tried.
unsigned Choose(unsigned count);

// The running thread is about to do something visible to `where`. Returns when it is its turn; not before `*blocked`,
// unless that is null, is false.
void Arrive(uintptr_t where, bool writes, const bool *blocked = nullptr);

// Ends this execution.
[[noreturn]] void Fail(const std::string &what);

// Counts towards the bound of what one execution may do: a loop that does not end is a violation.
void CountStep();

// A line for the trace that is printed with a violation.
void Record(const char *what, uintptr_t where, uint64_t value, const void *code);

// Whether the address is a coroutine's stack or a thread-local variable: nobody else's.
bool IsPrivate(uintptr_t address);

}  // namespace model_check

#endif
