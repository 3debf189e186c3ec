/* Starts programs in every way that shares or copies memory until exec, and uses the heap before and after. Prints
 * `ok`. */
#include "check.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int end_of(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static pid_t start_by_vfork(char *const *command) {
  const pid_t child = vfork();
  if (child == 0) {
    execv(command[0], command);
    _exit(127);
  }
  return child;
}

int main(void) {
  char *const command[] = {"/bin/sh", "-c", "exit 9", NULL};
  char *const missing[] = {"/no/such/program", NULL};
  for (int round = 0; round < 30; ++round) {
    void *before[40];
    for (unsigned i = 0; i < 40; ++i) paint(before[i] = malloc(1000 * i + 1), 1000 * i + 1, i);
    pid_t child;
    CHECK(posix_spawn(&child, command[0], NULL, NULL, command, environ) == 0 && end_of(child) == 9);
    CHECK(posix_spawn(&child, missing[0], NULL, NULL, missing, environ) != 0);
    CHECK(end_of(start_by_vfork(command)) == 9);
    CHECK(end_of(start_by_vfork(missing)) == 127);
    CHECK(WEXITSTATUS(system("exit 8")) == 8);
    FILE *pipe = popen("echo word", "r");
    char line[16];
    CHECK(pipe != NULL && fgets(line, sizeof line, pipe) != NULL && pclose(pipe) == 0);
    for (unsigned i = 0; i < 40; ++i) {
      CHECK(is_painted(before[i], 1000 * i + 1, i));
      free(before[i]);
    }
  }
  puts("ok");
  return 0;
}
