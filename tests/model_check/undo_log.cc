#include "model_check/undo_log.h"

#include "model_check/explorer.h"
#include "model_check/machine.h"

namespace model_check {
namespace {

struct OldBytes {
  uintptr_t address;
  size_t bytes;
  uint64_t value;  // little-endian
};
std::vector<OldBytes> setup_log, execution_log;
std::vector<uintptr_t> touched;
bool touched_by_place[kMachineBytes / kGranuleBytes];  // a place is a granule of the machine

// Not by memcpy, whose calls count as the allocator's.
template <typename Word>
volatile Word &WordAt(uintptr_t address) {
  return *reinterpret_cast<volatile Word *>(address);
}

bool IsWord(size_t bytes) { return bytes == 8 || bytes == 4 || bytes == 2 || bytes == 1; }

// Restores those bytes alone: their neighbours may be the checker's own.
void Undo(std::vector<OldBytes> *log) {
  for (; !log->empty(); log->pop_back()) {
    const OldBytes &old = log->back();
    if (IsWord(old.bytes)) {
      StoreMemory(old.address, old.bytes, old.value);
      continue;
    }
    for (size_t i = 0; i < old.bytes; i++) StoreMemory(old.address + i, 1, old.value >> 8 * i);
  }
}

}  // namespace

uint64_t ReadMemory(uintptr_t address, size_t bytes) {
  switch (bytes) {
    case 1:
      return WordAt<uint8_t>(address);
    case 2:
      return WordAt<uint16_t>(address);
    case 4:
      return WordAt<uint32_t>(address);
    default:
      return WordAt<uint64_t>(address);
  }
}

void StoreMemory(uintptr_t address, size_t bytes, uint64_t value) {
  switch (bytes) {
    case 1:
      WordAt<uint8_t>(address) = static_cast<uint8_t>(value);
      break;
    case 2:
      WordAt<uint16_t>(address) = static_cast<uint16_t>(value);
      break;
    case 4:
      WordAt<uint32_t>(address) = static_cast<uint32_t>(value);
      break;
    default:
      WordAt<uint64_t>(address) = value;
  }
}

void KeepMemory(uintptr_t address, size_t bytes) {
  OldBytes old{address, bytes, 0};
  if (IsWord(bytes)) {
    old.value = ReadMemory(address, bytes);
  } else {
    for (size_t i = 0; i < bytes; i++) old.value |= ReadMemory(address + i, 1) << 8 * i;
  }
  (CurrentPhase() == Phase::kSetup ? setup_log : execution_log).push_back(old);
  uintptr_t word = GranuleOf(address);
  if (!IsOfMachine(word)) return;
  bool &is_touched = touched_by_place[(word - machine_memory) / kGranuleBytes];
  if (is_touched) return;
  is_touched = true;
  touched.push_back(word);
}

void WriteMemory(uintptr_t address, size_t bytes, uint64_t value) {
  KeepMemory(address, bytes);
  StoreMemory(address, bytes, value);
}

const std::vector<uintptr_t> &WordsTouched() { return touched; }

void ForgetTouched() {
  for (uintptr_t word : touched) touched_by_place[(word - machine_memory) / kGranuleBytes] = false;
  touched.clear();
}

void UndoExecution() { Undo(&execution_log); }
void UndoSetup() { Undo(&setup_log); }

}  // namespace model_check
