/* Signals while threads allocate and free each other's blocks: signal_storm HOW COUNT. Prints `ok`.
 *
 * HOW is timer, a thousand a second to whichever thread the system chooses, or pthread_kill, as fast as can be to one
 * thread after the other. COUNT is how many there are to be, those included that came while one waited to be delivered.
 * The handler does not allocate: the interrupted call must go on.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { thread_count = 3, block_count = 100, shared_count = 64 };

static pthread_t threads[thread_count];
static _Atomic(size_t *) shared[shared_count];
static atomic_int is_over;
static atomic_long arrived;

static void on_signal(int unused, siginfo_t *info, void *context) {
  (void)unused;
  (void)context;
  arrived += 1 + (info->si_code == SI_TIMER ? info->si_overrun : 0);
}

/* A block says its size in its first word and is painted from there on, so each thread that gets it can check it. */
static size_t *make(unsigned random) {
  const size_t body = random % (random % 64 == 0 ? 2000000 : random % 8 == 0 ? 40000 : 1500);
  size_t *block = malloc(sizeof *block + body);
  CHECK(block != NULL);
  *block = body;
  paint(block + 1, body, (unsigned)body);
  return block;
}

static void drop(size_t *block) {
  if (block == NULL) return;
  CHECK(is_painted(block + 1, *block, (unsigned)*block));
  free(block);
}

static void *work(void *argument) {
  size_t *blocks[block_count] = {0};
  unsigned state = (unsigned)(uintptr_t)argument;
  while (!is_over) {
    const unsigned i = next_random(&state) % block_count;
    drop(blocks[i]);
    blocks[i] = make(next_random(&state));
    if (i % 4 == 0) blocks[i] = atomic_exchange(&shared[next_random(&state) % shared_count], blocks[i]);
  }
  for (int i = 0; i < block_count; ++i) drop(blocks[i]);
  return NULL;
}

static void await_timer(long count) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec every = {.it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1000000};
  CHECK(timer_settime(timer, 0, &every, NULL) == 0);
  for (unsigned state = 9; arrived < count;) drop(make(next_random(&state)));
  CHECK(timer_delete(timer) == 0);
}

static void send_to_threads(long count) {
  for (unsigned state = 9; arrived < count;) {
    const unsigned random = next_random(&state);
    CHECK(pthread_kill(threads[random % thread_count], SIGALRM) == 0);
    if (random % 16 == 0) drop(make(next_random(&state)));
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  for (uintptr_t i = 0; i < thread_count; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
  (strcmp(argv[1], "timer") == 0 ? await_timer : send_to_threads)(atol(argv[2]));
  is_over = 1;
  for (int i = 0; i < thread_count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < shared_count; ++i) drop(shared[i]);
  puts("ok");
  return 0;
}
