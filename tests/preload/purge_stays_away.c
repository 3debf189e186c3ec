/* No purge thread where it is not wanted: purge_stays_away HOW BEATS
 *
 * HOW: `alone`, one thread leaves memory idle; `busy`, two threads, and the little that they have stays in use; `idle`,
 * a second thread leaves memory idle (the control, and what a user forbids); `refused`, the same where a sandbox allows
 * no new thread: then little may stay resident. Looks for the thread during BEATS fiftieths of a second. Prints `seen
 * N`: how often it was there.
 */
#include "refused_for_good.h"
#include "with_purge_thread.h"

#define IN_USE_BYTES (4 * MIB)

static atomic_int is_ready;

static void *keep_in_use(void *unused) {
  (void)unused;
  block_t *chain = take_chain(64 * KIB, IN_USE_BYTES);
  is_ready = 1;
  for (;;) pause();
  return chain;
}

static void refuse_threads(void) {
  refuse_for_good(SYS_clone, EPERM);
#ifdef SYS_clone3
  refuse_for_good(SYS_clone3, EPERM);
#endif
}

static void *return_at_once(void *argument) { return argument; }

static void *free_where_no_thread_can_start(void *unused) {
  pthread_t thread;
  refuse_threads();
  CHECK(pthread_create(&thread, NULL, return_at_once, unused) != 0);
  free_chain(take_chain(64 * KIB, 4 * IDLE_BYTES));
  is_ready = 1;
  for (;;) pause();
  return NULL;
}

static void start(void *(*body)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
  while (!is_ready) wait_beats(1);
}

static void begin(const char *how) {
  if (strcmp(how, "alone") == 0) {
    leave_idle(IDLE_BYTES);
  } else if (strcmp(how, "busy") == 0) {
    start(keep_in_use);
  } else if (strcmp(how, "idle") == 0) {
    start_idle_thread();
  } else {
    CHECK(strcmp(how, "refused") == 0);
    start(free_where_no_thread_can_start);
    refuse_threads();
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  alarm(30);
  const size_t before = resident_bytes();
  free(malloc(100)); /* the main thread is known to the allocator, too */
  begin(argv[1]);
  int seen = 0;
  for (int beats = atoi(argv[2]); beats > 0; --beats) {
    seen += find_purge_thread() != 0;
    wait_beats(1);
  }
  if (strcmp(argv[1], "refused") == 0) CHECK(resident_bytes() < before + BACK_BYTES);
  printf("seen %d\n", seen);
  return 0;
}
