// os/lock.h by the machine's locks, for all programs but that of lock_scenarios.c, which checks os/lock.c itself.
#include "model_check/machine.h"
#include "os/lock.h"

bool hk_lock_init(void (*)(void)) { return true; }
void hk_lock_acquire(hk_lock_id_t id) { model_check::MachineLock(static_cast<unsigned>(id)); }
void hk_lock_release(hk_lock_id_t id) { model_check::MachineUnlock(static_cast<unsigned>(id)); }
void hk_lock_wait_for_repair(void) {}
void hk_lock_defer_repair(void) {}
void hk_lock_allow_repair(void) {}
bool hk_lock_after_fork(bool) { return true; }
uint32_t hk_lock_generation(void) { return 1; }
uint64_t hk_lock_take_count(hk_lock_id_t) { return 0; }
uint64_t hk_lock_wait_count(hk_lock_id_t) { return 0; }
uint64_t hk_lock_sleep_count(hk_lock_id_t) { return 0; }
