/* Guarded blocks in unusual places of a program: guard_places WAY. Each way ends with "went on", or by a fault in a
 * freed block. Prints the numbers that the report has to name. */
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define BLOCK_BYTES 40

static volatile unsigned char *block;

static void say(const char *name, long value) {
  printf("%s %ld\n", name, value);
  fflush(stdout);
}

static long own_thread(void) { return syscall(SYS_gettid); }

/* Allocates and frees blocks of all kinds of sizes. Returns the last one, freed. */
static volatile unsigned char *use_blocks(void) {
  volatile unsigned char *last = NULL;
  for (size_t size = 1; size < 300000; size = size * 3 + 1) {
    last = malloc(size);
    CHECK(last != NULL);
    memset((void *)last, 1, size);
    last[size - 1] = 2;
    free((void *)last);
  }
  return last;
}

/* ---- Threads and processes. */

static void *allocate_and_end(void *unused) {
  say("allocated", own_thread());
  block = malloc(BLOCK_BYTES);
  return unused;
}

/* The block outlives its thread. */
static void after_the_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, allocate_and_end, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  block[0] = 1;
  free((void *)block);
  say("freed", own_thread());
  block[0] = 1;
}

static void wait_for(pid_t child, int *status) { CHECK(waitpid(child, status, 0) == child); }

/* A block belongs to the child and to the parent; each frees its own. */
static void child_frees(void) {
  int status;
  block = malloc(BLOCK_BYTES);
  block[0] = 7;
  pid_t child = fork();
  if (child == 0) {
    CHECK(block[0] == 7);
    free((void *)block);
    (void)use_blocks();
    _exit(0);
  }
  wait_for(child, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(block[0] == 7);
  free((void *)block);
}

static void child_faults(void) {
  int status;
  block = malloc(BLOCK_BYTES);
  pid_t child = fork();
  if (child == 0) {
    say("freed", own_thread());
    free((void *)block);
    block[0] = 1;
    _exit(0);
  }
  wait_for(child, &status);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  block[0] = 1; /* the parent's is live */
  free((void *)block);
}

/* Many blocks that live at once. */
static void live_together(void) {
  static unsigned char *blocks[100];
  for (int i = 0; i < 100; i++) {
    blocks[i] = malloc(BLOCK_BYTES);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], i, BLOCK_BYTES);
  }
  for (int i = 0; i < 100; i++) {
    CHECK(blocks[i][0] == i && blocks[i][BLOCK_BYTES - 1] == i);
    free(blocks[i]);
  }
}

/* More than the mappings of a process suffice for; the program itself still gets one. */
static void live_for_ever(void) {
  static unsigned char *blocks[30000];
  for (int i = 0; i < 30000; i++) {
    blocks[i] = malloc(16);
    CHECK(blocks[i] != NULL);
  }
  CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

/* ---- Signal handlers. */

static void use_in_handler(int number) {
  (void)number;
  (void)use_blocks();
}

static void fault_in_handler(int number) {
  (void)number;
  block = malloc(BLOCK_BYTES);
  free((void *)block);
  block[0] = 1;
}

static void raise_with(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  CHECK(raise(SIGUSR1) == 0);
}

static sigjmp_buf back;

static void leave_by_jump(int number) {
  (void)number;
  siglongjmp(back, 1);
}

/* A program that survives each of its faults. */
static void jump_out(void) {
  struct sigaction action = {.sa_handler = leave_by_jump};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  for (volatile int i = 0; i < 20; i++) {
    block = malloc(BLOCK_BYTES);
    free((void *)block);
    if (sigsetjmp(back, 1) == 0) {
      block[0] = 1;
      CHECK(!"the fault did not come");
    }
    (void)use_blocks();
  }
}

/* ---- Coroutines. */

static ucontext_t main_context, coroutine_context;
static int faults_in_coroutine;

static void run_coroutine(void) {
  for (int i = 0; i < 50; i++) (void)use_blocks();
  block = malloc(BLOCK_BYTES);
  free((void *)block);
  if (faults_in_coroutine) block[0] = 1;
}

/* On a stack of a page between two pages that cannot be touched. */
static void on_a_page(int faults) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  static char alternate[65536];
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  CHECK(sigaltstack(&stack, NULL) == 0);
  char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0);
  faults_in_coroutine = faults;
  CHECK(getcontext(&coroutine_context) == 0);
  coroutine_context.uc_stack.ss_sp = pages + page;
  coroutine_context.uc_stack.ss_size = page;
  coroutine_context.uc_link = &main_context;
  makecontext(&coroutine_context, run_coroutine, 0);
  CHECK(swapcontext(&main_context, &coroutine_context) == 0);
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "";
  say("process", getpid());
  if (strcmp(way, "after_the_thread") == 0) after_the_thread();
  if (strcmp(way, "child_frees") == 0) child_frees();
  if (strcmp(way, "child_faults") == 0) child_faults();
  if (strcmp(way, "live_together") == 0) live_together();
  if (strcmp(way, "live_for_ever") == 0) live_for_ever();
  if (strcmp(way, "use_in_handler") == 0) raise_with(use_in_handler);
  if (strcmp(way, "fault_in_handler") == 0) raise_with(fault_in_handler);
  if (strcmp(way, "jump_out") == 0) jump_out();
  if (strcmp(way, "coroutine") == 0) on_a_page(0);
  if (strcmp(way, "fault_in_coroutine") == 0) on_a_page(1);
  printf("went on\n");
  return 0;
}
