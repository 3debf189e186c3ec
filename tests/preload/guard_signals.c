/* Handlers of SIGSEGV of a program with guards: guard_signals WAY. A handler prints its name and the address's kind. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static char *page;
static struct sigaction found;
static sigjmp_buf back;
static volatile int caught;
static const char *way;

static void say(const char *text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(90);
}

/* Repairs the program's own page, as a garbage collector does; leaves all else to the handler that it has found. */
static void on_fault(int number, siginfo_t *info, void *context) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  if (!sigismember(&now, SIGUSR1)) say("the mask is wrong\n");
  if ((char *)info->si_addr == page) {
    say("own page\n");
    caught++;
    if (strcmp(way, "jump") == 0) siglongjmp(back, 1);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    return;
  }
  say("other address\n");
  if ((found.sa_flags & SA_SIGINFO) != 0 && found.sa_sigaction != NULL && strcmp(way, "chain") == 0) {
    found.sa_sigaction(number, info, context);
    return;
  }
  signal(SIGSEGV, SIG_DFL);
}

static void install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGUSR1);
  if (sigaction(SIGSEGV, &action, &found) != 0) _exit(91);
}

static void probe(int number) {
  (void)number;
  say("the wrong handler\n");
  _exit(92);
}

/* hakmem puts its handler before the one that it finds. */
static void *use_guards(void) {
  void *volatile block = malloc(40);
  free(block);
  return block;
}

/* Installs another handler for a while, as a program does that tries an address, and then the one before it again. */
static void take_turns(void) {
  if (strcmp(way, "saved") == 0) {
    struct sigaction other = {.sa_handler = probe}, before;
    sigaction(SIGSEGV, &other, &before);
    (void)use_guards();
    sigaction(SIGSEGV, &before, NULL);
  } else if (strcmp(way, "signal") == 0) {
    void (*before)(int) = signal(SIGSEGV, probe);
    (void)use_guards();
    signal(SIGSEGV, before);
  }
}

/* An alternate stack with room for the kernel's frame and 2 KiB, above an inaccessible page. */
static void take_least_stack(void) {
  size_t least = getauxval(AT_MINSIGSTKSZ), bytes = (least > 2048 ? least : 2048) + 2048, room = 65536;
  char *start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(start, (room - bytes) / 4096 * 4096, PROT_NONE);
  stack_t least_stack = {.ss_sp = start + room - bytes, .ss_size = bytes};
  if (sigaltstack(&least_stack, NULL) != 0) _exit(93);
}

static void touch(void) {
  mprotect(page, 4096, PROT_NONE);
  if (sigsetjmp(back, 1) == 0) *(volatile char *)page = 1;
}

int main(int argc, char **argv) {
  way = argc > 1 ? argv[1] : "";
  static char stack[16384];
  stack_t small = {.ss_sp = stack, .ss_size = sizeof stack};
  if (strcmp(way, "stack") == 0) sigaltstack(&small, NULL);
  if (strcmp(way, "least") == 0) take_least_stack();
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  install();
  touch(); /* the program's handler is in front */
  volatile char *block = use_guards();
  take_turns();
  touch();
  touch();
  if (caught != 3) say("not all were caught\n");
  if (strcmp(way, "send") == 0) raise(SIGSEGV);
  *block = 1;
  say("went on\n");
  return 0;
}
