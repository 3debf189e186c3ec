/* api/confine.c - L5. See confine.h. */
#include "api/confine.h"

#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "api/alloc.h"
#include "api/instruments.h"
#include "api/lifecycle.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "os/process.h"
#include "policy/option.h"
#include "space/purge_wakeup.h"

/* Chosen: how long the caller waits for the library's threads to end. A thread that purges much memory may end
 * later. */
#define THREADS_END_MS 500

hk_sandbox_t hk_confine_level_of_prctl(unsigned long option, unsigned long mode, unsigned long filter) {
  if (option != PR_SET_SECCOMP) return hk_sandbox_none;
  if (mode == SECCOMP_MODE_STRICT) return hk_sandbox_strict;
  return mode == SECCOMP_MODE_FILTER && filter != 0 ? hk_sandbox_filtered : hk_sandbox_none;
}

/* A call without a filter installs none: libraries probe the kernel's flags that way. */
hk_sandbox_t hk_confine_level_of_seccomp(unsigned long operation, unsigned long flags, unsigned long filter) {
  if (operation == SECCOMP_SET_MODE_STRICT && flags == 0 && filter == 0) return hk_sandbox_strict;
  return operation == SECCOMP_SET_MODE_FILTER && filter != 0 ? hk_sandbox_filtered : hk_sandbox_none;
}

static void end_threads(void) {
  hk_store_relaxed(&hk_sandbox_is_near, true);
  hk_purge_wakeup_force();
  hk_serve_end_soon();
  hk_own_thread_await_ends(THREADS_END_MS);
}

/* Attaches a heap while memory can still be mapped: in a strict sandbox all blocks come from that heap. */
static void prepare_heap(void) { hk_free(hk_alloc(1)); }

hk_sandbox_t hk_confine_begin(hk_sandbox_t sandbox) {
  hk_sandbox_t before = (hk_sandbox_t)hk_load_relaxed(&hk_sandbox_level);
  if (before >= sandbox || hk_option.sandbox == hk_sandbox_off) return before;
  /* The filter is the child's alone, which may do nothing after it but begin another program. */
  if (hk_process_borrows_memory()) return before;
  if (before < hk_sandbox_filtered) {
    hk_lifecycle_start();
    hk_lifecycle_read_settings();
    if (sandbox == hk_sandbox_strict) prepare_heap();
    end_threads();
    hk_os_signal_ignore(true);
  }
  hk_store_relaxed(&hk_sandbox_level, (int)sandbox);
  return before;
}

void hk_confine_undo(hk_sandbox_t before) {
  if (hk_process_borrows_memory()) return;
  if (before < hk_sandbox_filtered) hk_os_signal_ignore(false);
  hk_store_relaxed(&hk_sandbox_level, (int)before);
  hk_store_relaxed(&hk_sandbox_is_near, before >= hk_sandbox_filtered);
}
