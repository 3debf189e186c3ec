/* os/os_node.c - L1. Implements the memory nodes and processors of os.h on Linux. */
#include "base/atomic.h"
#include "os/node_list.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/vdso.h"

/* Counts nodes with processors: no thread runs on the nodes that have memory alone. */
unsigned hk_os_node_count(void) {
  unsigned count = hk_node_list_read("/sys/devices/system/node/has_cpu");
  if (count == 0) count = hk_node_list_read("/sys/devices/system/node/online");
  return count > 0 ? count : 1;
}

/* The kernel refuses a mask that is shorter than its own. */
#define MASK_WORDS 64 /* 4,096 processors */

unsigned hk_os_cpu_count(void) {
  uint64_t mask[MASK_WORDS];
  long bytes = hk_syscall3(SYS_sched_getaffinity, 0, sizeof mask, (long)mask);
  unsigned count = 0;
  for (long i = 0; i < bytes / (long)sizeof mask[0]; i++) {
    for (uint64_t left = mask[i]; left != 0; left &= left - 1) count++;
  }
  return count > 0 ? count : 1;
}

static long call_getcpu(unsigned *cpu, unsigned *node, void *unused) {
  return hk_syscall3(SYS_getcpu, (long)cpu, (long)node, (long)unused);
}

hk_os_place_t hk_os_current_place(void) {
  static _Atomic(hk_vdso_getcpu_t *) known;
  hk_vdso_getcpu_t *getcpu = hk_load_relaxed(&known);
  if (HK_UNLIKELY(getcpu == NULL)) {
    getcpu = hk_vdso_find_getcpu(hk_os_vdso());
    if (getcpu == NULL) getcpu = call_getcpu;
    hk_store_relaxed(&known, getcpu);
  }
  hk_os_place_t place = {0};
  (void)getcpu(&place.cpu, &place.node, NULL);
  return place;
}
