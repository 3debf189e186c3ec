/* Crashes in the way that argv[1] names, after it has said on stdout what hakmem_describe says of the address. With a
 * second argument it has a handler for the signal: `after` (installed in main), `chaining` (one that calls what was
 * there before it) or `early` (installed before the library's start: a program that is linked with it). The handler
 * prints what it got and exits with 7. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"
#include "refused_for_good.h"

static struct sigaction found[65];
static volatile char *volatile target;
static const char *handler_kind = "";

static void say(const char *format, ...) {
  char line[700];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  CHECK(write(1, line, (size_t)length) == length);
}

/* ---- Handlers. */

static void leave(int number, siginfo_t *info, void *context) {
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  say("handler %d code %d address %p blocked %d\n", number, info->si_code, info->si_code > 0 ? info->si_addr : NULL,
      sigismember(&mask, SIGUSR1));
  _exit(7);
}

static void chain(int number, siginfo_t *info, void *context) {
  say("chaining handler %d\n", number);
  found[number].sa_sigaction(number, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaddset(&action.sa_mask, SIGUSR1);
  const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT};
  for (int i = 0; i < 3; i++) CHECK(sigaction(numbers[i], &action, &found[numbers[i]]) == 0);
}

__attribute__((constructor(101))) static void early(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[2], "early") == 0) install(leave);
}

/* ---- Ways to crash. */

static void touch(volatile char *address) {
  target = address;
  char text[600] = "?";
  size_t (*describe)(const void *, char *, size_t) =
      (size_t(*)(const void *, char *, size_t))dlsym(RTLD_DEFAULT, "hakmem_describe");
  if (describe != NULL) describe((const void *)address, text, sizeof text);
  say("%s\n", text);
  *target = 1;
}

static void forbid(void *address) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  CHECK(mprotect((void *)((uintptr_t)address & ~(page - 1)), page, PROT_NONE) == 0);
}

static void in_block(void) {
  char *run = malloc(200000);
  forbid(run + 70000);
  touch(run + 70000);
}

static void past_block(void) {
  char *run = malloc(200000);
  char *end = run + malloc_usable_size(run);
  forbid(end);
  touch(end + 5);
}

static void in_freed(void) {
  char *run = malloc(200000);
  forbid(run + 70000);
  free(run);
  touch(run + 70000);
}

/* What leads to the bad address is in a freed block, which a register points to. */
static void through_freed(void) {
  char *object = malloc(64), *next = (char *)8;
  free(object);
  say("%p\n", object);
#if defined(__x86_64__)
  __asm__ volatile("movq %0, %%rbx\n movb $1, (%1)" ::"r"(object), "r"(next) : "rbx", "memory");
#else
  __asm__ volatile("mov x19, %0\n strb wzr, [%1]" ::"r"(object), "r"(next) : "x19", "memory");
#endif
}

static void null_pointer(void) { touch((volatile char *)16); }

static void null_call(void) {
  void (*volatile function)(void) = NULL;
  function();
}

static void no_address(void) { touch((volatile char *)(uintptr_t)0x1234567812345678); }

static void past_file(void) {
  int file = memfd_create("short", 0);
  char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(map != MAP_FAILED);
  touch(map);
}

__attribute__((noinline)) static int fill_stack(int depth) {
  volatile char frame[2000];
  frame[0] = (char)depth;
  return fill_stack(depth + 1) + frame[0];
}

static void overflow(void) { fill_stack(0); }

/* Writes to the frame's end first, which lies above the stack pointer. */
__attribute__((noinline)) static int fill_stack_from_above(int depth) {
  volatile char frame[4000];
  for (size_t i = sizeof frame; i-- > 0;) frame[i] = (char)depth;
  return fill_stack_from_above(depth + 1) + frame[0];
}

static void overflow_above(void) { fill_stack_from_above(0); }

/* The stack has room, and no memory follows behind its first frame. */
static void past_stack(void) {
  volatile char here = 0;
  const volatile char *at = &here;
  for (;;) at += (unsigned char)(*at & 0) + 1;
}

static void aborts(void) { abort(); }
static void raises(void) { raise(SIGSEGV); }

static void damages(void) {
  uintptr_t *block = malloc(64);
  free(block);
  __asm__ volatile("" : "+r"(block)::"memory");
  block[1] = 17;
  free(malloc(64));
}

/* ---- Where it crashes. */

static void in_child(void (*body)(void)) {
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(9);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  say("child ended by %d\n", WTERMSIG(status));
  _exit(0);
}

static void *run_in_thread(void *body) {
  pthread_setname_np(pthread_self(), "crasher");
  free(malloc(10)); /* from now on the allocator knows it */
  ((void (*)(void))body)();
  return NULL;
}

static void in_thread(void (*body)(void)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_in_thread, (void *)body) == 0);
  pthread_join(thread, NULL);
}

static pthread_barrier_t together;
static void *crash_together(void *unused) {
  free(malloc(10));
  pthread_barrier_wait(&together);
  *(volatile char *)16 = 1;
  return unused;
}

static void many_threads(void) {
  enum { count = 8 };
  pthread_t thread;
  pthread_barrier_init(&together, NULL, count);
  for (int i = 0; i < count; i++) CHECK(pthread_create(&thread, NULL, crash_together, NULL) == 0);
  pthread_join(thread, NULL);
}

/* On an alternate stack as small as many programs have, the kernel's frame and a page, above an inaccessible page. */
static void on_small_stack(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t frame = (getauxval(AT_MINSIGSTKSZ) + page - 1) / page * page, bytes = frame + page;
  char *start = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(start != MAP_FAILED && mprotect(start, page, PROT_NONE) == 0);
  stack_t stack = {.ss_sp = start + page, .ss_size = bytes};
  CHECK(sigaltstack(&stack, NULL) == 0);
  null_pointer();
}

/* The stack of the report lies above such a stack, whose frames the list of calls leads through. */
static void on_low_stack(void) {
  static char stack_bytes[64 * 1024];
  stack_t stack = {.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes};
  CHECK(sigaltstack(&stack, NULL) == 0);
  null_pointer();
  CHECK(stack_bytes[0] == 0); /* so that the call is no jump */
}

static void thread_null(void) { in_thread(null_pointer); }
static void thread_overflow(void) { in_thread(overflow); }
static void child_null(void) { in_child(null_pointer); }

/* The report must read a block that cannot be read, and no system call can tell that: the report itself crashes. */
static void in_report(void) {
  char *block = malloc(64);
  forbid(block);
  target = block;
  refuse_for_good(SYS_process_vm_readv, ENOSYS);
  refuse_for_good(SYS_futex, ENOSYS); /* otherwise it tells which addresses can be read */
  *target = 1;
}

/* The block cannot be read, and the kernel copies nothing. */
static void in_sandbox(void) {
  char *block = malloc(64);
  forbid(block);
  target = block;
  refuse_for_good(SYS_process_vm_readv, ENOSYS);
  *target = 1;
}

/* Nothing of the threads' own stacks may stay. */
static int mappings(void) {
  int count = 0, c;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while ((c = getc(maps)) != EOF) count += c == '\n';
  fclose(maps);
  return count;
}

static void *no_work(void *unused) {
  free(malloc(10));
  return unused;
}

static void many_lives(void) {
  int before = 0;
  for (int i = 0; i < 300; i++) {
    if (i == 50) before = mappings();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(mappings() <= before + 20);
  say("ok\n");
  _exit(0);
}

static void waits(void) {
  say("ready\n");
  for (;;) pause();
}

static const struct {
  const char *name;
  void (*run)(void);
} ways[] = {{"in_block", in_block},
            {"past_block", past_block},
            {"in_freed", in_freed},
            {"null", null_pointer},
            {"null_call", null_call},
            {"no_address", no_address},
            {"past_file", past_file},
            {"overflow", overflow},
            {"overflow_above", overflow_above},
            {"past_stack", past_stack},
            {"abort", aborts},
            {"raise", raises},
            {"damage", damages},
            {"thread_null", thread_null},
            {"child", child_null},
            {"thread_overflow", thread_overflow},
            {"threads", many_threads},
            {"in_report", in_report},
            {"in_sandbox", in_sandbox},
            {"lives", many_lives},
            {"wait", waits},
            {"small_stack", on_small_stack},
            {"low_stack", on_low_stack},
            {"through_freed", through_freed}};

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  alarm(60);
  if (argc > 2 && strcmp(argv[2], "after") == 0) install(leave);
  if (argc > 2 && strcmp(argv[2], "chaining") == 0) install(chain);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (strcmp(argv[1], ways[i].name) == 0) ways[i].run();
  }
  return exit_usage;
}
