/* Takes 8 MiB, three times 16 MiB more, and frees it all, with pauses that are longer than any clock's tick. Exit code
 * 7.
 *
 *   levels             that
 *   levels fork        the same in a child of fork too, first; prints both process ids
 *   levels leave       only in the child; the parent leaves by _exit
 *   levels kill        stays for a second, and is killed
 *   levels close FILE  stays for a second, closes all that is open but stdin and stdout, opens FILE under each
 *                      of these numbers, and goes on
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

enum { tick_ms = 20, stay_ms = 1100, most_files = 250 };

static void pause_for(long ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) CHECK(errno == EINTR);
}

static void *take(size_t bytes) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  pause_for(tick_ms);
  return block;
}

static void give(void *block) {
  free(block);
  pause_for(tick_ms);
}

static void levels(void) {
  pause_for(tick_ms);
  void *small = take(8 * MIB);
  for (int i = 0; i < 3; i++) give(take(16 * MIB));
  give(small);
}

static pid_t levels_in_child(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    levels();
    exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return child;
}

static void stay(void) {
  levels();
  pause_for(stay_ms);
  levels();
}

static void close_all(const char *path) {
  for (int file = STDERR_FILENO; file < most_files; file++) close(file);
  int file = open(path, O_WRONLY | O_CREAT, 0600);
  while (file >= 0 && file < most_files - 1) file = dup(file);
  CHECK(file >= 0);
}

int main(int count, char **words) {
  const char *mode = count > 1 ? words[1] : "";
  if (strcmp(mode, "fork") == 0) printf("%d %d\n", (int)getpid(), (int)levels_in_child());
  if (strcmp(mode, "leave") == 0) {
    levels_in_child();
    _exit(7);
  }
  if (strcmp(mode, "kill") == 0) {
    stay();
    kill(getpid(), SIGKILL);
  }
  if (strcmp(mode, "close") == 0 && count > 2) {
    stay();
    close_all(words[2]);
    pause_for(stay_ms);
  }
  levels();
  return 7;
}
