// The modelled machine: an implementation of os/os.h. Unmapped memory is used again at once. It has futexes, and locks
// for the programs that do not check os/lock.c itself.
#ifndef HK_TESTS_MODEL_CHECK_MACHINE_H
#define HK_TESTS_MODEL_CHECK_MACHINE_H

#include <cstddef>
#include <cstdint>

namespace model_check {

constexpr size_t kMachineBytes = size_t{1} << 28;
extern uintptr_t machine_memory;

// Returns whether hk_os_reserve may return memory at the address.
inline bool IsOfMachine(uintptr_t address) { return address - machine_memory < kMachineBytes; }

// A correct lock: one thread has it at a time, and the next one sees what it did.
void MachineLock(unsigned id);
void MachineUnlock(unsigned id);

// ---- For the explorer.

void ResetMachine();
void KeepMachine();     // saves the state after setup
void RestoreMachine();  // to the saved state

}  // namespace model_check

#endif
