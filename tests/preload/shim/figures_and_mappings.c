/* When a process ends, and when it calls figures_and_mappings(), writes what hakmem_stats_get says and what the
 * kernel says of each mapping, into a file of the folder FIGURES_FOLDER. Loaded beside the library, into programs
 * that know nothing of it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hakmem/hakmem.h"

extern int hakmem_stats_get(hakmem_stats_t *out, size_t size) __attribute__((weak));

static void copy(int from, int to) {
  char buffer[4096];
  for (ssize_t got; (got = read(from, buffer, sizeof buffer)) > 0;) {
    if (write(to, buffer, (size_t)got) != got) _exit(99);
  }
}

void figures_and_mappings(void) {
  static hakmem_stats_t stats;
  const char *folder = getenv("FIGURES_FOLDER");
  if (folder == NULL || hakmem_stats_get == NULL || hakmem_stats_get(&stats, sizeof stats) != 0) return;
  int from = open("/proc/self/smaps", O_RDONLY);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dprintf(to, "resident %lu\nlive %lu\nfree_in_slabs %lu\nuncarved %lu\nkept_by_heaps %lu\nidle %lu\nbig_idle %lu\n",
          stats.memory_resident, stats.parts_live, stats.parts_free_in_slabs, stats.parts_uncarved,
          stats.parts_kept_by_heaps, stats.parts_dirty_slabs, stats.parts_large_dirty);
  dprintf(to, "lazy %lu\nmetadata %lu\nnot_malloc %lu\n\n", stats.parts_lazy, stats.parts_metadata,
          stats.parts_not_malloc);
  copy(from, to);
  close(from);
  close(to);
}

__attribute__((destructor)) static void at_exit(void) { figures_and_mappings(); }
