/* The program's signals are never handled by the purge thread. Prints `ok`.
 *
 * While that sleeps and works, all threads of the program block two signals: one that is sent to the process, and one
 * of a timer, a thousand times a second. No thread may handle them. Then the main thread does.
 */
#include "with_purge_thread.h"

#include <signal.h>

static atomic_int sent_handled, timer_handled, handled_elsewhere;
static __thread int is_main;

static void on_signal(int number) {
  ++*(number == SIGUSR1 ? &sent_handled : &timer_handled);
  if (!is_main) ++handled_elsewhere;
}

static void mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN);
  CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static atomic_int is_masked;

/* The signals are blocked only when the purge thread is there: it would inherit that from the thread that started
 * it. */
static void *leave_idle_then_mask(void *unused) {
  leave_idle(IDLE_BYTES);
  await_purge_thread();
  mask(SIG_BLOCK);
  is_masked = 1;
  for (;;) pause();
  return unused;
}

static void start_timer(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  const struct itimerspec every = {.it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1000000};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &every, NULL) == 0);
}

int main(void) {
  alarm(30);
  const size_t before = resident_bytes();
  is_main = 1;
  const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGRTMIN, &action, NULL) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, leave_idle_then_mask, NULL) == 0);
  while (!is_masked) wait_beats(1);
  mask(SIG_BLOCK);
  CHECK(find_purge_thread() != 0);
  start_timer();
  CHECK(kill(getpid(), SIGUSR1) == 0);
  await_resident(before + BACK_BYTES);
  wait_beats(beats_a_second / 5);
  CHECK(sent_handled == 0 && timer_handled == 0);
  mask(SIG_UNBLOCK);
  while (timer_handled < 100) wait_beats(1);
  CHECK(sent_handled == 1 && handled_elsewhere == 0);
  puts("ok");
  return 0;
}
