/* The first process of a pid namespace forks the first of one nested in it: both have the number 1. Each prints whether
 * it has a serve thread, unless there is an argument. */
#define _GNU_SOURCE

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_quiet;

enum { LOOKS = 500, LOOK_US = 10000, SKIPPED = 77 };

/* Whether a thread of this process has that name. The list is that of /proc's own namespace, where `self` is this
 * process. */
static int has_thread(const char *wanted) {
  DIR *tasks = opendir("/proc/self/task");
  int found = 0;
  for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) != NULL) found |= strncmp(name, wanted, strlen(wanted)) == 0;
    fclose(file);
  }
  if (tasks != NULL) closedir(tasks);
  return found;
}

static void tell(const char *who) {
  int is_there = 0;
  if (is_quiet) return;
  for (int i = 0; i < LOOKS && !is_there; i++) {
    is_there = has_thread("hakmem-serve");
    if (!is_there) usleep(LOOK_US);
  }
  printf("%s %d %s\n", who, (int)getpid(), is_there ? "serves" : "does not serve");
  fflush(stdout);
}

static int fork_into_namespace(void (*run)(void)) {
  if (unshare(CLONE_NEWPID) != 0) return SKIPPED;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    run();
    exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void run_inner(void) { tell("nested"); }

static void run_outer(void) {
  tell("first");
  int code = fork_into_namespace(run_inner);
  if (code != 0) exit(code);
}

int main(int count, char **words) {
  (void)words;
  is_quiet = count > 1;
  return fork_into_namespace(run_outer);
}
