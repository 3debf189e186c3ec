/* Forks from a signal handler that interrupted malloc or free: fork_in_handler HOW FORKS, HOW is fork or _Fork.
 *
 * POSIX 2024 grants it to _Fork alone; glibc's own tests ask it of fork as well. Neither side may hang or find the heap
 * damaged. Prints `ok`.
 */
#include "check.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { block_count = 64, patience_seconds = 120 };

static pid_t (*divide)(void);
static volatile sig_atomic_t forks_left, forks_failed;

static void on_tick(int unused) {
  (void)unused;
  if (forks_left <= 0) return;
  const int saved = errno;
  const pid_t child = divide();
  if (child == 0) _exit(0);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++forks_failed;
  --forks_left;
  errno = saved;
}

int main(int argc, char **argv) {
  if (argc != 3) return exit_usage;
  divide = strcmp(argv[1], "fork") == 0 ? fork : (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
  if (divide == NULL) {
    puts("this C library has no _Fork");
    return exit_skipped;
  }
  forks_left = atoi(argv[2]);
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  const struct itimerval every = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);

  unsigned char *blocks[block_count] = {0};
  size_t sizes[block_count] = {0};
  unsigned state = 3;
  while (forks_left > 0) {
    const unsigned i = next_random(&state) % block_count;
    CHECK(is_painted(blocks[i], sizes[i], i));
    free(blocks[i]);
    const unsigned random = next_random(&state);
    sizes[i] = 1 + random % (random % 8 == 0 ? 200000 : 2000);
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != NULL);
    paint(blocks[i], sizes[i], i);
  }
  CHECK(forks_failed == 0);
  puts("ok");
  return 0;
}
