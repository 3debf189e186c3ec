/* Three large blocks here, one more in a child of fork; both end by exit. Prints both process ids. Exit code 7. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { big_bytes = 4 << 20 };

static void ask(int times) {
  for (int i = 0; i < times; i++) {
    void *volatile block = malloc(big_bytes);
    if (block == NULL) exit(1);
    free(block);
  }
}

int main(void) {
  if (errno != 0) return 2;
  ask(3);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    ask(1);
    exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("%d %d\n", (int)getpid(), (int)child);
  return status == 0 ? 7 : 1;
}
