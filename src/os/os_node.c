/* os/os_node.c - L1. Implements the memory nodes of os.h on Linux. */
#include <errno.h>
#include <sys/auxv.h>

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

static long call_getcpu(unsigned *cpu, unsigned *node, void *unused) {
  return hk_syscall3(SYS_getcpu, (long)cpu, (long)node, (long)unused);
}

static hk_vdso_getcpu_t *find_getcpu(void) {
  int saved_errno = errno;
  hk_vdso_getcpu_t *getcpu = hk_vdso_find_getcpu(getauxval(AT_SYSINFO_EHDR));
  errno = saved_errno;
  return getcpu != NULL ? getcpu : call_getcpu;
}

unsigned hk_os_current_node(void) {
  static _Atomic(hk_vdso_getcpu_t *) known;
  hk_vdso_getcpu_t *getcpu = hk_load_relaxed(&known);
  if (HK_UNLIKELY(getcpu == NULL)) {
    getcpu = find_getcpu();
    hk_store_relaxed(&known, getcpu);
  }
  unsigned cpu = 0, node = 0;
  (void)getcpu(&cpu, &node, NULL);
  return node;
}
