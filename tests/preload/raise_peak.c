/* Memory of the program's own beside dirty memory: raise_peak
 *
 * Takes and frees blocks until the allocator keeps as much of them as it may, and waits half a second. Then maps and
 * fills 64 MiB without malloc, a MiB at a time, and takes and frees a block after each. Prints `peak KIB`: by how much
 * the process's highest resident memory rose meanwhile.
 */
#include "idle_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { own_mib = 64 };

static long peak_kib(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss;
}

/* In a child of fork, whose highest resident memory is its own: the kernel counts in this process's that of the program
 * before exec, too. */
static void raise_peak(void) {
  free_chain(take_chain(12000, 32 * MIB));
  wait_beats(beats_a_second / 2);
  const long before = peak_kib();
  for (int i = 0; i < own_mib; ++i) {
    char *own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    memset(own, 1, MIB);
    wait_beats(1);
    free_chain(take_chain(2 * MIB, 2 * MIB));
  }
  printf("peak %ld\n", peak_kib() - before);
  exit(0);
}

int main(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) raise_peak();
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
