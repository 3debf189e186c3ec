/* bench/launch_small.c - starts a program and reports its peak: launch_small REPORT LIBRARY|- PROGRAM [ARGUMENT...]
 *
 * Linux begins a program's peak (ru_maxrss) at the size of the process that started it: measured from a Python script,
 * every small program would be as big as Python. This launcher is linked statically, so it is smaller than any program,
 * and reports its own size: a peak of no more than that is the launcher's.
 *
 * REPORT gets one line: exit code, peak KiB, minor faults, major faults, the launcher's own peak KiB.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

/* Getrusage would give the size of this process's parent. */
static long own_peak_kib(void) {
  char line[256];
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kib);
  if (status) fclose(status);
  return kib;
}

static char **with_preload(const char *library) {
  static char preload[4096];
  size_t count = 0;
  while (environ[count]) ++count;
  char **variables = calloc(count + 2, sizeof *variables);
  memcpy(variables, environ, count * sizeof *variables);
  if (strcmp(library, "-") != 0) {
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    variables[count] = preload;
  }
  return variables;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fputs("usage: launch_small REPORT LIBRARY|- PROGRAM [ARGUMENT...]\n", stderr);
    return 2;
  }
  pid_t child;
  struct rusage usage;
  int status;
  if (posix_spawnp(&child, argv[3], NULL, NULL, argv + 3, with_preload(argv[2])) != 0) {
    perror(argv[3]);
    return 2;
  }
  if (wait4(child, &status, 0, &usage) != child) return 2;
  FILE *report = fopen(argv[1], "w");
  if (report == NULL) return 2;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  fprintf(report, "%d %ld %ld %ld %ld\n", code, usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt, own_peak_kib());
  return fclose(report) == 0 ? 0 : 2;
}
