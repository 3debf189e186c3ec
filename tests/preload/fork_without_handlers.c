/* The child of _Fork or of a bare clone runs no at-fork handler. Its first new thread and the thread that forked
 * must not come by each other's blocks. argv[1]: "_Fork" or "clone". */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { slot_count = 64, block_bytes = 48, operations = 300000 };
static int damaged;

static void churn(unsigned char tag) {
  unsigned char *blocks[slot_count] = {0};
  unsigned random = tag;
  for (int i = 0; i < operations; i++) {
    random = random * 1103515245 + 12345;
    unsigned slot = (random >> 16) % slot_count;
    if (blocks[slot] == NULL) {
      blocks[slot] = malloc(block_bytes);
      memset(blocks[slot], tag, block_bytes);
      continue;
    }
    for (int k = 0; k < block_bytes; k++) {
      if (blocks[slot][k] != tag) __atomic_store_n(&damaged, 1, __ATOMIC_RELAXED);
    }
    free(blocks[slot]);
    blocks[slot] = NULL;
  }
}

static void *churn_in_thread(void *unused) {
  churn(7);
  return unused;
}

static void run_child(void) {
  alarm(30);
  pthread_t thread;
  if (pthread_create(&thread, NULL, churn_in_thread, NULL) != 0) _exit(exit_skipped);
  churn(9);
  pthread_join(thread, NULL);
  _exit(damaged ? exit_failed : 0);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  for (int i = 0; i < 100; i++) free(malloc(16 + 16 * (size_t)i));
  for (int round = 0; round < 10; round++) {
    pid_t child = strcmp(argv[1], "clone") == 0 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
    if (child == 0) run_child();
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return exit_failed;
  }
  puts("ok");
  return 0;
}
