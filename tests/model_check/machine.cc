#include "model_check/machine.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/panic.h"
#include "model_check/order_model.h"
#include "os/lock.h"
#include "os/os.h"

namespace model_check {

uintptr_t machine_memory;

namespace {

constexpr size_t kMemoryAlignment = size_t{1} << 30;  // all memory lies in one region of the region map
constexpr unsigned kLocks = hk_lock_count;

struct Mapping {
  uintptr_t start;
  uintptr_t end;
};

struct Freed {
  Mapping range;
  Clock clock;
};

struct Lock {
  bool held = false;
  unsigned holder = 0;
  Clock clock;
};

struct Sleeper {
  bool asleep = false;
  uintptr_t word = 0;
};

struct State {
  std::vector<Mapping> mappings;
  std::vector<Freed> freed;
  Lock locks[kLocks];
  Sleeper sleepers[kThreadsMax];
  bool one_woke_early = false;  // one wait of an execution may return for no reason, which suffices to check it
};
State state, kept;

void PrepareOnce() {
  if (machine_memory != 0) return;
  void *mapped =
      mmap(nullptr, kMachineBytes + kMemoryAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) abort();
  machine_memory = (reinterpret_cast<uintptr_t>(mapped) + kMemoryAlignment - 1) & ~(kMemoryAlignment - 1);
  if (mprotect(reinterpret_cast<void *>(machine_memory), kMachineBytes, PROT_READ | PROT_WRITE) != 0) abort();
}

bool Overlap(const Mapping &one, const Mapping &other) { return one.start < other.end && other.start < one.end; }

bool IsFree(const Mapping &range) {
  for (const Mapping &mapping : state.mappings) {
    if (Overlap(mapping, range)) return false;
  }
  return range.end <= machine_memory + kMachineBytes;
}

// Returns the lowest free place, so that unmapped memory is used again first.
uintptr_t FindPlace(size_t bytes, size_t alignment) {
  uintptr_t lowest = 0;
  auto consider = [&](uintptr_t from) {
    uintptr_t start = (from + alignment - 1) & ~(alignment - 1);
    if (IsFree(Mapping{start, start + bytes}) && (lowest == 0 || start < lowest)) lowest = start;
  };
  consider(machine_memory);
  for (const Mapping &mapping : state.mappings) consider(mapping.end);
  return lowest;
}

bool IsThread() { return CurrentPhase() == Phase::kThreads; }

// Mapping and unmapping are visible operations on the system's records.
void ArriveAtSystem() {
  if (IsThread()) Arrive(reinterpret_cast<uintptr_t>(&state), true);
}

bool IsMapped(const Mapping &range) {
  size_t found = 0;
  for (const Mapping &mapping : state.mappings) {
    uintptr_t from = mapping.start > range.start ? mapping.start : range.start;
    uintptr_t to = mapping.end < range.end ? mapping.end : range.end;
    if (from < to) found += to - from;
  }
  return found == range.end - range.start;
}

void RequireMapped(const Mapping &range) {
  if (!IsMapped(range)) Fail("the system is asked for memory that is not mapped");
}

void Remove(const Mapping &range) {
  std::vector<Mapping> rest;
  for (const Mapping &mapping : state.mappings) {
    if (!Overlap(mapping, range)) {
      rest.push_back(mapping);
      continue;
    }
    if (mapping.start < range.start) rest.push_back(Mapping{mapping.start, range.start});
    if (range.end < mapping.end) rest.push_back(Mapping{range.end, mapping.end});
  }
  state.mappings = rest;
}

Mapping MappingOf(const void *start, size_t bytes) {
  uintptr_t address = reinterpret_cast<uintptr_t>(start);
  return Mapping{address, address + bytes};
}

}  // namespace

void MachineLock(unsigned id) {
  Lock &lock = state.locks[id];
  if (IsThread()) {
    CountStep();
    if (lock.held && lock.holder == CurrentThread()) Fail("a thread takes a lock that it has");
    Arrive(reinterpret_cast<uintptr_t>(&lock), true, &lock.held);
    ClockOfThread().Join(lock.clock);
    lock.holder = CurrentThread();
    Record("lock", reinterpret_cast<uintptr_t>(&lock), id, nullptr);
  }
  lock.held = true;
}

void MachineUnlock(unsigned id) {
  Lock &lock = state.locks[id];
  if (!lock.held || (IsThread() && lock.holder != CurrentThread())) Fail("a lock is released by who does not have it");
  lock.held = false;
  if (!IsThread()) return;
  lock.clock = ClockOfThread();
  ClockOfThread().at[CurrentThread()]++;
  Record("unlock", reinterpret_cast<uintptr_t>(&lock), id, nullptr);
}

void ResetMachine() {
  PrepareOnce();
  state = State{};
}
void KeepMachine() { kept = state; }
void RestoreMachine() { state = kept; }

}  // namespace model_check

using namespace model_check;

bool checker_is_mapped(const void *start, size_t bytes) { return IsMapped(MappingOf(start, bytes)); }

void checker_wipe_last_mapping(void) {
  const Mapping &mapping = state.mappings.back();
  WipeRange(mapping.start, mapping.end - mapping.start, nullptr);
}

// ---- os/os.h: memory.

size_t hk_os_page_size(void) { return 4096; }

void *hk_os_reserve(size_t bytes, size_t alignment) {
  ArriveAtSystem();
  uintptr_t start = FindPlace(bytes, alignment);
  if (start == 0) return nullptr;
  Mapping range{start, start + bytes};
  state.mappings.push_back(range);
  if (IsThread()) {
    for (const Freed &freed : state.freed) {
      if (Overlap(freed.range, range)) ClockOfThread().Join(freed.clock);
    }
    MapRange(start, bytes);
    Record("reserve", start, bytes, __builtin_return_address(0));
  }
  return reinterpret_cast<void *>(start);
}

bool hk_os_unmap(void *start, size_t bytes) {
  ArriveAtSystem();
  Mapping range = MappingOf(start, bytes);
  RequireMapped(range);
  UnmapRange(range.start, bytes, __builtin_return_address(0));
  Remove(range);
  if (IsThread()) {
    state.freed.push_back(Freed{range, ClockOfThread()});
    ClockOfThread().at[CurrentThread()]++;
    Record("unmap", range.start, bytes, __builtin_return_address(0));
  }
  return true;
}

bool hk_os_purge(void *start, size_t bytes) {
  Mapping range = MappingOf(start, bytes);
  RequireMapped(range);
  WipeRange(range.start, bytes, __builtin_return_address(0));
  if (IsThread()) {
    ClockOfThread().at[CurrentThread()]++;
    Record("purge", range.start, bytes, __builtin_return_address(0));
  }
  return true;
}

/* The program's memory is not locked. */
bool hk_os_purge_if_locked(void *, size_t) { return false; }

hk_os_purge_t hk_os_purge_lazily(void *start, size_t bytes) {
  (void)hk_os_purge(start, bytes);
  return hk_os_purge_lazy;
}

/* The system refuses the first two, as it may. */
bool hk_os_resize(void *, size_t, size_t) { return false; }
bool hk_os_move(void *, size_t, void *, size_t) { return false; }
bool hk_os_wipe_on_fork(void *, size_t) { return true; }

// ---- os/os.h: waiting.

void hk_os_wait(const uint32_t *word, uint32_t expected) {
  if (!IsThread()) return;
  CountStep();
  uintptr_t address = reinterpret_cast<uintptr_t>(word);
  Sleeper &me = state.sleepers[CurrentThread()];
  Arrive(address, true);
  if (NewestValue(address, sizeof *word) != expected) {
    Record("futex: no wait, word is", address, NewestValue(address, sizeof *word), __builtin_return_address(0));
    return;
  }
  if (!state.one_woke_early && Choose(2) == 1) { /* "may return early for no reason" */
    state.one_woke_early = true;
    Record("futex: no wait, no reason", address, expected, __builtin_return_address(0));
    return;
  }
  Record("futex: wait", address, expected, __builtin_return_address(0));
  me.word = address;
  me.asleep = true;
  Arrive(address, true, &me.asleep);
}

/* No scenario has the purge thread itself, which sleeps without a lock and does what other threads do. */
bool hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t) {
  hk_os_wait(word, expected);
  return true;
}
bool hk_os_thread_start(const char *, void (*)(void)) { return false; }
unsigned hk_os_thread_count(void) { return 0; }
bool hk_os_thread_is_of_c_library(void) { return true; }
bool hk_os_thread_is_ending(void) { return false; }
hk_os_thread_t hk_os_thread_self(void) { return {1, 0}; }
/* Scenarios with threads that sleep define their own. */
__attribute__((weak)) bool hk_os_thread_sleeps(const hk_os_thread_t *) { return false; }
bool hk_os_thread_has_ended(const hk_os_thread_t *) { return false; }
bool hk_os_thread_has_word(const hk_os_thread_t *, const void *, const void *) { return true; }
__attribute__((weak)) bool hk_purge_wakeup_is_allowed() { return true; }
bool hk_os_bare_thread_claim(void) { return false; }
bool hk_os_bare_thread_is_claimed(void) { return false; }
void hk_os_bare_thread_give_up(void) {}
bool hk_os_bare_thread_start(const char *, void (*)(void)) { return false; }
hk_os_signal_t hk_os_signal_take(unsigned, bool, void (*)(void)) { return hk_os_signal_refused; }
void hk_os_signal_listen(void) {}
void hk_os_signal_ignore(bool) {}
uint64_t hk_os_process_id(void) { return 1; }

void hk_os_wake_one(const uint32_t *word) {
  if (!IsThread()) return;
  CountStep();
  uintptr_t address = reinterpret_cast<uintptr_t>(word);
  Arrive(address, true);
  unsigned found[kThreadsMax], count = 0;
  for (unsigned i = 0; i < kThreadsMax; i++) {
    if (state.sleepers[i].asleep && state.sleepers[i].word == address) found[count++] = i;
  }
  unsigned woken = count > 0 ? found[Choose(count)] : kThreadsMax;
  if (count > 0) state.sleepers[woken].asleep = false;
  Record("futex: wake", address, woken, __builtin_return_address(0));
}

// ---- The rest, which has no effect here.

void hk_os_write_stderr(const char *, size_t) {}
void hk_os_note_stderr(void) {}
void hk_os_keep_stderr(void) {}
void hk_os_yield(void) {}
void hk_os_abort(void) { Fail("the allocator ends the program"); }
uint64_t hk_os_now_ns(void) { return 0; }
uint64_t hk_os_coarse_ms(void) { return 0; }
uint64_t hk_os_thread_cpu_ns(void) { return 0; }
uint64_t hk_os_unix_ms(void) { return hk_os_coarse_ms(); }
hk_os_huge_t hk_os_huge_setting(void) { return hk_os_huge_never; }
bool hk_os_huge_advise(void *, size_t, bool) { return false; }
void hk_os_huge_keep_small(void *, size_t) {}
void *hk_os_reserve_small(size_t bytes, size_t alignment) { return hk_os_reserve(bytes, alignment); }
void *hk_os_reserve_readable(size_t bytes, size_t alignment) { return hk_os_reserve(bytes, alignment); }
bool hk_os_allow_writes(void *, size_t) { return true; }
void hk_os_forbid_writes(void *, size_t) {}
bool hk_os_huge_collapse(void *, size_t, uint64_t *) { return false; }
bool hk_os_prefault(void *, size_t) { return false; }
uint64_t hk_os_huge_touch(void *) { return 0; }
size_t hk_os_resident_bytes(void *, size_t) { return 0; }
bool hk_os_resident_pages(void *, size_t, unsigned char *) { return false; }
unsigned hk_os_node_count(void) { return 1; }
unsigned hk_os_cpu_count(void) { return 1; }
hk_os_place_t hk_os_current_place(void) { return {}; }
uint64_t hk_os_process_secret(void) { return 42; }
const char *const *hk_os_environment(void) { return nullptr; }
bool hk_os_is_secure_exec(void) { return false; }
hk_os_memory_t hk_os_memory(void) { return hk_os_memory_t{}; }
size_t hk_os_peak_resident_bytes(void) { return 0; }
bool hk_os_thread_exit_init(void (*)(void)) { return true; }
bool hk_os_thread_exit_arm(void) { return true; }
void hk_os_at_fork(void (*)(void)) {}

void hk_panic(const char *file, int line, const char *sentence) {
  char place[64];
  snprintf(place, sizeof place, ":%d", line);
  Fail(std::string("internal error: ") + sentence + " (" + file + place + ")");
}
