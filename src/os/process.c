/* os/process.c - L1. See process.h. Each fork makes a new generation, which the process recognises by the page that the
 * kernel wipes. A child of vfork has its parent's page and another number. */
#include "os/process.h"

#include "base/atomic.h"
#include "os/lock.h"
#include "os/os.h"

uint64_t hk_process_mark(void) { return (uint64_t)hk_lock_generation() << 32 | hk_os_process_id(); }

/* The mark of the process that the memory belongs to; 0: not yet noted. */
static _Atomic(uint64_t) noted;

void hk_process_note(void) { hk_store_relaxed(&noted, hk_process_mark()); }

/* A child of a bare clone, which no at-fork handler has noted, has another generation. */
bool hk_process_borrows_memory(void) {
  uint64_t found = hk_load_relaxed(&noted), own = hk_process_mark();
  return found != own && found >> 32 == own >> 32;
}
