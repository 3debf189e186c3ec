/* A program whose threads block every signal but the alarm's, with a purge thread. It prints the id of the purge
 * thread, and waits for a line; then it sends the tool's signal to itself, by kill and with a value, and waits for
 * each as it would for any signal that it has blocked everywhere. It prints `ok`. */
#include "with_purge_thread.h"

#include <signal.h>

enum { tool_signal = 58, own_value = 4711 };

int main(void) {
  alarm(100);
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGALRM); /* so that the alarm still ends what hangs */
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  start_idle_thread();
  printf("%d\n", (int)await_purge_thread());
  fflush(stdout);
  char line[16];
  CHECK(read(STDIN_FILENO, line, sizeof line) > 0);

  siginfo_t info;
  CHECK(kill(getpid(), tool_signal) == 0);
  CHECK(sigwaitinfo(&all, &info) == tool_signal && info.si_code == SI_USER && info.si_pid == getpid());
  CHECK(sigqueue(getpid(), tool_signal, (union sigval){.sival_int = own_value}) == 0);
  CHECK(sigwaitinfo(&all, &info) == tool_signal && info.si_code == SI_QUEUE && info.si_value.sival_int == own_value);
  puts("ok");
  return 0;
}
