/* The process ends while it has a purge thread: purge_end HOW DELAY_MS (below 1,000)
 *
 * HOW: main `return`s; another thread calls `exit`; main leaves with `pthread_exit`, and the other threads end; another
 * program is `exec`uted. DELAY_MS after the thread came, so that it is met asleep and at work. Prints `atexit`, or what
 * the other program prints, the same word.
 */
#include "with_purge_thread.h"

static const char *how;
static long delay_ms;

static void at_exit(void) {
  free_chain(take_chain(64 * KIB, IDLE_BYTES));
  CHECK(write(1, "atexit\n", 7) == 7);
}

static void delay(void) { nanosleep(&(struct timespec){.tv_nsec = delay_ms * 1000000}, NULL); }

static void await_the_moment(void) {
  await_purge_thread();
  delay();
}

static atomic_int has_main_left;

static void *leave_idle_and_end(void *unused) {
  leave_idle(IDLE_BYTES);
  if (strcmp(how, "pthread_exit") == 0) {
    while (!has_main_left) wait_beats(1);
    delay();
    return unused;
  }
  await_the_moment();
  if (strcmp(how, "exit") == 0) exit(0);
  return unused;
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  alarm(30);
  how = argv[1];
  delay_ms = atol(argv[2]);
  CHECK(atexit(at_exit) == 0);
  free(malloc(100)); /* the main thread is known to the allocator, too */
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, leave_idle_and_end, NULL) == 0);
  await_the_moment();
  if (strcmp(how, "exec") == 0) execl("/bin/echo", "echo", "atexit", (char *)NULL);
  if (strcmp(how, "exit") == 0) pause();
  if (strcmp(how, "pthread_exit") == 0) {
    has_main_left = 1;
    pthread_exit(NULL);
  }
  return 0;
}
