// The memory that the scenarios write, and how it is set back after each execution: every write is kept, whose it is.
#ifndef HK_TESTS_MODEL_CHECK_UNDO_LOG_H
#define HK_TESTS_MODEL_CHECK_UNDO_LOG_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace model_check {

// What is looked at as one: an aligned word.
constexpr uintptr_t kGranuleBytes = 8;
inline uintptr_t GranuleOf(uintptr_t address) { return address & ~(kGranuleBytes - 1); }

// 1, 2, 4 or 8 bytes.
uint64_t ReadMemory(uintptr_t address, size_t bytes);
void StoreMemory(uintptr_t address, size_t bytes, uint64_t value);

// Before up to 8 bytes of one granule are written.
void KeepMemory(uintptr_t address, size_t bytes);
// Both.
void WriteMemory(uintptr_t address, size_t bytes, uint64_t value);

// The granules of the machine's memory that anybody wrote since ForgetTouched, in this execution or another one.
const std::vector<uintptr_t> &WordsTouched();
void ForgetTouched();

void UndoExecution();
void UndoSetup();

}  // namespace model_check

#endif
