#include "model_check/order_model.h"

#include <vector>

#include "model_check/by_address.h"
#include "model_check/machine.h"
#include "model_check/undo_log.h"

namespace model_check {
namespace {

// A thread's failures of a weak compare-exchange without a reason.
constexpr unsigned kSpuriousMax = 1;
// A thread's loads of one value that is not the newest, and updates of such values. The bound lets loops end.
constexpr unsigned kOutdatedMax = 2;

uint8_t MaskOf(uintptr_t address, size_t bytes) {
  return static_cast<uint8_t>(((1u << bytes) - 1) << (address & (kGranuleBytes - 1)));
}

// ---- Ranges with a scenario's rule, and unmapped ones.

struct Range {
  uintptr_t start;
  size_t bytes;
  bool Has(uintptr_t address) const { return address - start < bytes; }
};
std::vector<Range> racy, ignored;
bool ignores_loaded;

bool IsIn(const std::vector<Range> &ranges, uintptr_t address) {
  for (const Range &range : ranges) {
    if (range.Has(address)) return true;
  }
  return false;
}

// A cleared range, for later accesses.
struct Wipe {
  Range range;
  unsigned thread;
  uint32_t when;
  bool unmapped;
};
std::vector<Wipe> wipes;

// ---- Clocks.

Clock clocks[kThreadsMax];
unsigned spurious_count[kThreadsMax], outdated_count[kThreadsMax];

Clock &Mine() { return clocks[CurrentThread()]; }
uint32_t Now() { return Mine().at[CurrentThread()]; }
void Tick() { Mine().at[CurrentThread()]++; }
bool HasHappened(unsigned thread, uint32_t when) { return when <= Mine().at[thread]; }

// ---- Data races.

struct Access {
  unsigned thread;
  uint32_t when;
  uint8_t mask;
  bool writes;
  bool atomic;
  const void *code;
};

struct Shadow {
  std::vector<Access> accesses;
  bool has_atomic = false;
  void Clear() {
    accesses.clear();
    has_atomic = false;
  }
};
ByAddress<Shadow> shadows;

[[noreturn]] void FailAt(const char *what, uintptr_t address, const void *code) {
  Record(what, address, 0, code);
  Fail(what);
}

void CheckMapped(uintptr_t address, bool writes, const void *code) {
  for (const Wipe &wipe : wipes) {
    if (!wipe.range.Has(address)) continue;
    if (wipe.unmapped) FailAt("access to memory that is not mapped", address, code);
    if (!HasHappened(wipe.thread, wipe.when)) {
      FailAt(
          writes ? "data race: memory is written while it is purged" : "data race: memory is read while it is purged",
          address, code);
    }
  }
}

// Notes the part of an access that lies in one granule.
Shadow &NoteAccess(uintptr_t address, size_t bytes, bool writes, bool atomic, const void *code) {
  CheckMapped(address, writes, code);
  Shadow &shadow = shadows[GranuleOf(address)];
  uint8_t mask = MaskOf(address, bytes);
  unsigned me = CurrentThread();
  Access *same = nullptr;
  for (Access &access : shadow.accesses) {
    if (access.thread == me) {
      if (access.mask == mask && access.writes == writes && access.atomic == atomic) same = &access;
      continue;
    }
    bool conflict = (access.mask & mask) != 0 && (access.writes || writes) && !(access.atomic && atomic);
    if (conflict && !HasHappened(access.thread, access.when)) {
      Record(access.atomic ? "other access: atomic" : "other access: plain", address, access.thread, access.code);
      FailAt("data race: two threads use the same memory, and nothing orders them", address, code);
    }
  }
  if (same != nullptr) {
    same->when = Now();
    same->code = code;
  } else {
    shadow.accesses.push_back(Access{me, Now(), mask, writes, atomic, code});
  }
  shadow.has_atomic |= atomic;
  return shadow;
}

// ---- Atomic variables.

struct Message {
  uint64_t value;
  Clock seen;             // each thread's time of its first read or write; 0: none
  Clock release;          // the clock that an acquire of it joins; zero: none
  Clock loads;            // each thread's number of reads
  bool consumed = false;  // the next message is a read-modify-write of this one: none may come between
};
// In modification order.
struct History {
  std::vector<Message> messages;
  void Clear() { messages.clear(); }
};
ByAddress<History> variables;

bool Acquires(int order) { return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_CONSUME; }
bool Releases(int order) { return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL; }

std::vector<Message> &Variable(uintptr_t address, unsigned bytes) {
  std::vector<Message> &messages = variables[address].messages;
  if (messages.empty()) messages.push_back(Message{ReadMemory(address, bytes), {}, {}, {}});
  return messages;
}

// Returns the oldest message that the running thread may still read: the newest that has happened for it.
size_t OldestVisible(const std::vector<Message> &messages) {
  for (size_t i = messages.size(); i-- > 1;) {
    for (unsigned thread = 0; thread < kThreadsMax; thread++) {
      uint32_t when = messages[i].seen.at[thread];
      if (when != 0 && HasHappened(thread, when)) return i;
    }
  }
  return 0;
}

void See(Message *message, int order) {
  uint32_t &when = message->seen.at[CurrentThread()];
  if (when == 0) when = Now();
  if (Acquires(order)) Mine().Join(message->release);
}

// Puts a new value behind the message at `after`, in modification order.
void Insert(uintptr_t address, unsigned bytes, size_t after, uint64_t value, int order, const Clock *inherited) {
  std::vector<Message> &messages = variables[address].messages;
  Message message{value, {}, {}, {}};
  message.seen.at[CurrentThread()] = Now();
  if (inherited != nullptr) message.release = *inherited;
  if (Releases(order)) message.release.Join(Mine());
  bool is_newest = after + 1 == messages.size();
  messages.insert(messages.begin() + static_cast<ptrdiff_t>(after) + 1, message);
  if (is_newest) WriteMemory(address, bytes, value);
}

// Returns the messages that the running thread may put a new one behind, the newest first. All but the newest come only
// kOutdatedMax times a thread. The result is valid until the next call.
const std::vector<size_t> &PlacesToWrite(const std::vector<Message> &messages) {
  static std::vector<size_t> places;
  places.assign(1, messages.size() - 1);
  if (outdated_count[CurrentThread()] == kOutdatedMax) return places;
  for (size_t i = messages.size() - 1, oldest = OldestVisible(messages); i-- > oldest;) {
    if (!messages[i].consumed) places.push_back(i);
  }
  return places;
}

void CountOutdated(const std::vector<Message> &messages, size_t place) {
  if (place + 1 < messages.size()) outdated_count[CurrentThread()]++;
}

// Begins an atomic access of a thread, and waits for its turn. Returns false when the access needs no choice.
bool Begin(uintptr_t address, unsigned bytes, bool writes, int order, const void *code) {
  if (CurrentPhase() != Phase::kThreads || IsPrivate(address)) return false;
  CountStep();
  if (order == __ATOMIC_SEQ_CST) FailAt("not modelled: a sequentially consistent operation", address, code);
  if (IsIn(ignored, address)) return false;
  Arrive(address, writes);
  NoteAccess(address, bytes, writes, true, code);
  return true;
}

uint64_t Updated(Update update, uint64_t value, uint64_t operand) {
  switch (update) {
    case Update::kExchange:
      return operand;
    case Update::kAdd:
      return value + operand;
    case Update::kSub:
      return value - operand;
    case Update::kAnd:
      return value & operand;
    case Update::kOr:
      return value | operand;
    case Update::kXor:
      return value ^ operand;
  }
  return value;
}

uint64_t Truncated(uint64_t value, unsigned bytes) {
  return bytes == 8 ? value : value & ((uint64_t{1} << 8 * bytes) - 1);
}

void StoreDirectly(uintptr_t address, unsigned bytes, uint64_t value) {
  if (CurrentPhase() == Phase::kOff || IsPrivate(address)) {
    StoreMemory(address, bytes, value);
  } else {
    WriteMemory(address, bytes, value);
  }
}

}  // namespace

Clock &ClockOfThread() { return Mine(); }

// ---- Accesses.

void PlainAccess(uintptr_t address, size_t bytes, bool writes, const void *code) {
  if (CurrentPhase() == Phase::kOff || IsPrivate(address)) return;
  CountStep();
  bool by_thread = CurrentPhase() == Phase::kThreads;
  uintptr_t end = address + bytes;
  while (address < end) {
    uintptr_t next = GranuleOf(address) + kGranuleBytes;
    size_t part = (next < end ? next : end) - address;
    if (by_thread && IsIn(racy, address)) {
      Arrive(address, writes);
      CheckMapped(address, writes, code);
      Record(writes ? "racy write" : "racy read", address, ReadMemory(GranuleOf(address), kGranuleBytes), code);
    } else if (by_thread) {
      Shadow &shadow = NoteAccess(address, part, writes, false, code);
      if (writes && shadow.has_atomic) { /* ends the variable's history: the next atomic access finds the new value */
        for (size_t i = 0; i < part; i++) variables.Erase(address + i);
      }
    }
    if (writes) KeepMemory(address, part);
    address = next;
  }
}

uint64_t AtomicLoad(uintptr_t address, unsigned bytes, int order, const void *code) {
  if (!Begin(address, bytes, false, order, code)) {
    if (ignores_loaded) ignored.push_back(Range{address, bytes});
    return ReadMemory(address, bytes);
  }
  std::vector<Message> &messages = Variable(address, bytes);
  static std::vector<size_t> places;
  places.clear();
  for (size_t i = messages.size(), oldest = OldestVisible(messages); i-- > oldest;) {
    if (places.empty() || messages[i].loads.at[CurrentThread()] < kOutdatedMax) places.push_back(i);
  }
  unsigned older = Choose(static_cast<unsigned>(places.size()));
  Message &message = messages[places[older]];
  message.loads.at[CurrentThread()]++;
  See(&message, order);
  Record(older == 0 ? "load" : "load of an older value", address, message.value, code);
  uint64_t value = message.value;
  Tick();
  return value;
}

void AtomicStore(uintptr_t address, unsigned bytes, uint64_t value, int order, const void *code) {
  if (!Begin(address, bytes, true, order, code)) {
    StoreDirectly(address, bytes, value);
    return;
  }
  std::vector<Message> &messages = Variable(address, bytes);
  const std::vector<size_t> &places = PlacesToWrite(messages);
  size_t after = places[Choose(static_cast<unsigned>(places.size()))];
  CountOutdated(messages, after);
  Record(after + 1 == messages.size() ? "store" : "store before others", address, value, code);
  Insert(address, bytes, after, value, order, nullptr);
  Tick();
}

uint64_t AtomicUpdate(uintptr_t address, unsigned bytes, Update update, uint64_t operand, int order, const void *code) {
  if (!Begin(address, bytes, true, order, code)) {
    uint64_t before = ReadMemory(address, bytes);
    StoreDirectly(address, bytes, Updated(update, before, operand));
    return before;
  }
  std::vector<Message> &messages = Variable(address, bytes);
  const std::vector<size_t> &places = PlacesToWrite(messages);
  size_t read = places[Choose(static_cast<unsigned>(places.size()))];
  CountOutdated(messages, read);
  messages[read].consumed = true;
  See(&messages[read], order);
  uint64_t before = messages[read].value;
  Clock inherited = messages[read].release;
  Record("read-modify-write, found", address, before, code);
  Insert(address, bytes, read, Truncated(Updated(update, before, operand), bytes), order, &inherited);
  Tick();
  return before;
}

CompareResult AtomicCompareExchange(uintptr_t address, unsigned bytes, uint64_t expected, uint64_t desired, int order,
                                    int order_of_failure, bool is_weak, const void *code) {
  if (!Begin(address, bytes, true, order, code)) {
    uint64_t found = ReadMemory(address, bytes);
    if (found == expected) StoreDirectly(address, bytes, desired);
    return CompareResult{found == expected, found};
  }
  struct Option {
    size_t read;
    bool succeeds;
  };
  static std::vector<Option> options;
  options.clear();
  std::vector<Message> &messages = Variable(address, bytes);
  size_t newest = messages.size() - 1;
  bool may_fail = is_weak && spurious_count[CurrentThread()] < kSpuriousMax;
  for (size_t i = newest + 1, oldest = OldestVisible(messages); i-- > oldest;) {
    bool equal = messages[i].value == expected;
    bool may_write = i == newest || (!messages[i].consumed && outdated_count[CurrentThread()] < kOutdatedMax);
    if (equal && may_write) options.push_back(Option{i, true});
    /* A thread reads an old value once at most: otherwise a loop around this would never end. */
    bool is_news = i == newest || messages[i].seen.at[CurrentThread()] == 0;
    if (!equal && is_news) options.push_back(Option{i, false});
  }
  if (may_fail && options.front().succeeds) options.push_back(Option{newest, false});
  Option option = options[Choose(static_cast<unsigned>(options.size()))];
  uint64_t found = messages[option.read].value;
  if (!option.succeeds) {
    if (found == expected) spurious_count[CurrentThread()]++;
    See(&messages[option.read], order_of_failure);
    Record("compare-exchange fails", address, found, code);
  } else {
    CountOutdated(messages, option.read);
    messages[option.read].consumed = true;
    See(&messages[option.read], order);
    Clock inherited = messages[option.read].release;
    Record("compare-exchange", address, desired, code);
    Insert(address, bytes, option.read, desired, order, &inherited);
  }
  Tick();
  return CompareResult{option.succeeds, found};
}

uint64_t NewestValue(uintptr_t address, unsigned bytes) { return ReadMemory(address, bytes); }

// ---- Ranges.

void WipeRange(uintptr_t start, size_t bytes, const void *code) {
  Range range{start, bytes};
  for (uintptr_t word : WordsTouched()) {
    if (!range.Has(word)) continue;
    if (CurrentPhase() == Phase::kThreads) {
      NoteAccess(word, kGranuleBytes, true, false, code);
      for (unsigned i = 0; i < kGranuleBytes; i++) variables.Erase(word + i);
    }
    if (ReadMemory(word, kGranuleBytes) != 0) WriteMemory(word, kGranuleBytes, 0);
  }
  if (CurrentPhase() == Phase::kThreads) wipes.push_back(Wipe{range, CurrentThread(), Now(), false});
}

void UnmapRange(uintptr_t start, size_t bytes, const void *code) {
  WipeRange(start, bytes, code);
  if (CurrentPhase() == Phase::kThreads) wipes.back().unmapped = true;
}

void MapRange(uintptr_t start, size_t bytes) {
  Range range{start, bytes};
  for (Wipe &wipe : wipes) {
    if (range.Has(wipe.range.start)) wipe.unmapped = false;
  }
}

// ---- For the explorer.

void BeginScenario() {
  racy.clear();
  ignored.clear();
  ForgetTouched();
  ResetMachine();
}

void EndSetup() { KeepMachine(); }

void BeginExecution() {
  variables.ForgetAll();
  shadows.ForgetAll();
  wipes.clear();
  for (unsigned i = 0; i < kThreadsMax; i++) {
    clocks[i] = Clock{};
    clocks[i].at[i] = 1;
    spurious_count[i] = outdated_count[i] = 0;
  }
}

void RollBack() {
  UndoExecution();
  RestoreMachine();
}

void EndScenario() {
  UndoExecution();
  UndoSetup();
}

}  // namespace model_check

void checker_allow_races(const void *start, size_t bytes) {
  model_check::racy.push_back({reinterpret_cast<uintptr_t>(start), bytes});
}
void checker_ignore(const void *start, size_t bytes) {
  model_check::ignored.push_back({reinterpret_cast<uintptr_t>(start), bytes});
}
void checker_ignore_loaded(bool on) { model_check::ignores_loaded = on; }
