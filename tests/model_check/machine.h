// The modelled machine: a system of os/os.h with memory that is given to the next one at once, futexes, and locks for
// the programs that do not check os/lock.c itself.
#ifndef HK_TESTS_MODEL_CHECK_MACHINE_H
#define HK_TESTS_MODEL_CHECK_MACHINE_H

#include <cstdint>

namespace model_check {

// Whether the address can be handed out by hk_os_reserve.
bool IsOfMachine(uintptr_t address);

// A lock that keeps its word: one thread has it, and what it did the next one sees.
void MachineLock(unsigned id);
void MachineUnlock(unsigned id);

// ---- For the explorer.

void ResetMachine();
void KeepMachine();     // as setup left it
void RestoreMachine();  // to that

}  // namespace model_check

#endif
