/* os/process.c - L1. See process.h. Each fork makes a new generation, which the process recognises by the page that the
 * kernel wipes. A child of vfork has its parent's page and another number. */
#include "os/process.h"

#include "os/lock.h"
#include "os/os.h"

uint64_t hk_process_mark(void) { return (uint64_t)hk_lock_generation() << 32 | hk_os_process_id(); }
