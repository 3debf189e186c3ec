// Undoes the scenarios' writes after each execution: the log keeps the old bytes of every write.
#ifndef HK_TESTS_MODEL_CHECK_UNDO_LOG_H
#define HK_TESTS_MODEL_CHECK_UNDO_LOG_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace model_check {

// The checker's unit of memory, an aligned word.
constexpr uintptr_t kGranuleBytes = 8;
inline uintptr_t GranuleOf(uintptr_t address) { return address & ~(kGranuleBytes - 1); }

// For 1, 2, 4 or 8 bytes.
uint64_t ReadMemory(uintptr_t address, size_t bytes);
void StoreMemory(uintptr_t address, size_t bytes, uint64_t value);

// Keeps up to 8 bytes of one granule before a write.
void KeepMemory(uintptr_t address, size_t bytes);
// Keeps the bytes, then stores the value.
void WriteMemory(uintptr_t address, size_t bytes, uint64_t value);

// Returns the granules of the machine's memory that were written since ForgetTouched, in any execution.
const std::vector<uintptr_t> &WordsTouched();
void ForgetTouched();

void UndoExecution();
void UndoSetup();

}  // namespace model_check

#endif
