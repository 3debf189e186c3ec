/* The same work (environment_work.h) in every environment: environment SETTING RESULT LIVE_MIB COUNT
 *
 * SETTING names a change that the program makes to itself, before or during the work, COUNT times where that has a
 * sense. RESULT is a file of at least a page; it is mapped, because a setting may leave the program without
 * descriptors, and receives a result_t at the end.
 */
#include "environment_work.h"

#include <dlfcn.h>
#include <libgen.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { patience_seconds = 600, page_bytes = 4096 };

/* Read by the runner: 8 bytes each. The usable size of a block of 100 bytes tells whose malloc it is. */
typedef struct {
  uint64_t is_done, checksum, peak_kib, usable_bytes;
} result_t;

static size_t live_bytes;
static int count;
static const char *result_path;
static result_t *result;
static uint64_t besides; /* what a setting adds to the checksum */

static uint64_t small_work(unsigned seed) {
  table_t *table = new_table(seed);
  fill_and_churn(table, 512 * KIB);
  return free_table(table);
}

/* ---- Descriptors. */

static void close_all(void) { CHECK(syscall(SYS_close_range, 0u, ~0u, 0u) == 0); }

static int own_pipes[2][200];

/* Every number that was closed, and high ones, belong to pipes of the program's own. */
static void reuse_descriptors(void) {
  close_all();
  for (int i = 0; i < 200; ++i) {
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    own_pipes[0][i] = ends[0];
    own_pipes[1][i] = i % 4 == 0 ? dup2(ends[1], 500 + i) : ends[1];
  }
}

/* Fails for a descriptor that the library wrote to, read from or closed. */
static void check_descriptors(void) {
  for (int i = 0; i < 200; ++i) {
    char byte = 0;
    CHECK(read(own_pipes[0][i], &byte, 1) == -1 && errno == EAGAIN);
    CHECK(write(own_pipes[1][i], "x", 1) == 1 && read(own_pipes[0][i], &byte, 1) == 1 && byte == 'x');
  }
}

static void limit_descriptors(void) {
  const struct rlimit limit = {(rlim_t)count, (rlim_t)count};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void leave_root(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", result_path);
  CHECK(chroot(dirname(path)) == 0 && chdir("/") == 0);
}

static void lock_memory(void) { CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0); }

/* ---- Signals. */

static atomic_int signals_seen;

static void note_signal(int number) {
  (void)number;
  volatile char some_stack[2048];
  some_stack[signals_seen % 2048] = 1;
  ++signals_seen;
}

static void each_millisecond(int which, int number, int flags) {
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART | flags};
  CHECK(sigaction(number, &action, NULL) == 0);
  const struct itimerval timer = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(which, &timer, NULL) == 0);
}

static void profile_signals(void) { each_millisecond(ITIMER_PROF, SIGPROF, 0); }

static void allocate_in_handler(int number) {
  (void)number;
  besides += small_work(7);
}

/* A handler may allocate where the signal does not interrupt malloc: raise. */
static void signals_on_own_stack(void) {
  const stack_t stack = {.ss_sp = malloc(256 * KIB), .ss_size = 256 * KIB};
  CHECK(stack.ss_sp != NULL && sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int i = 0; i < count; ++i) CHECK(raise(SIGUSR1) == 0);
  each_millisecond(ITIMER_REAL, SIGALRM, SA_ONSTACK);
}

static void no_more_signals(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0 && setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* ---- Threads. */

static atomic_int is_spinning;

static void *spin_until_cancelled(void *argument) {
  void *block = NULL;
  pthread_cleanup_push(free, argument);
  int old;
  free(malloc(1000));
  CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old) == 0);
  is_spinning = 1;
  for (volatile unsigned i = 0;; ++i) continue;
  pthread_cleanup_pop(1);
  return block;
}

static void cancel_threads(void) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    void *end;
    is_spinning = 0;
    CHECK(pthread_create(&thread, NULL, spin_until_cancelled, malloc(5000)) == 0);
    while (is_spinning == 0) sched_yield();
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
  }
}

static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;

static void *live_shortly(void *argument) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const size_t size = a_size((unsigned)(uintptr_t)argument * 97 + i * 100);
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    block[0] = block[size - 1] = (unsigned char)size;
    sum += block[0];
    free(block);
  }
  pthread_mutex_lock(&sum_lock);
  besides += sum;
  pthread_mutex_unlock(&sum_lock);
  return NULL;
}

static void start_small(pthread_t *thread, void *(*run)(void *), uintptr_t argument) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64 * KIB) == 0);
  CHECK(pthread_create(thread, &attributes, run, (void *)argument) == 0);
  CHECK(pthread_attr_destroy(&attributes) == 0);
}

static void many_short_threads(void) {
  pthread_t threads[8];
  for (int done = 0; done < count; done += 8) {
    for (int i = 0; i < 8; ++i) start_small(&threads[i], live_shortly, (uintptr_t)(done + i));
    for (int i = 0; i < 8; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

static atomic_int living_count, may_end;

static void *live_on(void *argument) {
  void *kept = malloc(1000);
  CHECK(kept != NULL);
  paint(kept, 1000, 3);
  live_shortly(argument);
  ++living_count;
  while (may_end == 0) syscall(SYS_futex, &may_end, 0 /* FUTEX_WAIT */, 0, NULL);
  CHECK(is_painted(kept, 1000, 3));
  free(kept);
  return NULL;
}

static pthread_t *living;

static void many_living_threads(void) {
  living = malloc((size_t)count * sizeof *living);
  CHECK(living != NULL);
  for (int i = 0; i < count; ++i) start_small(&living[i], live_on, (uintptr_t)i);
  while (living_count < count) usleep(1000);
}

static void end_living_threads(void) {
  may_end = 1;
  syscall(SYS_futex, &may_end, 1 /* FUTEX_WAKE */, count, NULL);
  for (int i = 0; i < count; ++i) CHECK(pthread_join(living[i], NULL) == 0);
  free(living);
}

/* ---- Processes. */

extern char **environ;

static int end_of(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static char *const command[] = {"/bin/sh", "-c", "exit 9", NULL};

static void start_by_vfork(void) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = vfork();
    if (child == 0) {
      free(malloc(10000));
      execv(command[0], command);
      _exit(127);
    }
    CHECK(end_of(child) == 9);
  }
}

static void start_by_spawn(void) {
  for (int i = 0; i < count; ++i) {
    pid_t child;
    CHECK(posix_spawn(&child, command[0], NULL, NULL, command, environ) == 0 && end_of(child) == 9);
  }
}

static int work_as_child(void *argument) { return (int)(small_work((unsigned)(uintptr_t)argument) & 63); }

/* With the memory shared, and with a copy of it. */
static void start_by_clone(void) {
  char *stack = malloc(256 * KIB);
  CHECK(stack != NULL);
  for (int i = 0; i < count; ++i) {
    const int flags = i % 2 == 0 ? CLONE_VM | CLONE_VFORK | SIGCHLD : SIGCHLD;
    besides += (uint64_t)end_of(clone(work_as_child, stack + 256 * KIB, flags, (void *)(uintptr_t)i));
  }
  free(stack);
}

static void *allocate_until_over(void *argument) {
  for (unsigned i = 0; may_end == 0; ++i) free(malloc(a_size(i * 7919)));
  return argument;
}

static void fork_beside_threads(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, allocate_until_over, NULL) == 0);
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(work_as_child((void *)(uintptr_t)i));
    besides += (uint64_t)end_of(child);
  }
  may_end = 1;
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- Coroutines on stacks of 4 KiB. */

enum { coroutine_count = 16 };
static ucontext_t main_context, contexts[coroutine_count];
static _Alignas(16) char stacks[coroutine_count][page_bytes];

static void run_coroutine(int own) {
  unsigned random = (unsigned)own + 1;
  for (int i = 0; i < count; ++i) {
    const size_t size = a_size(next_random(&random));
    unsigned char *block = i % 3 == 0 ? calloc(1, size) : malloc(size);
    CHECK(block != NULL);
    block[size - 1] = (unsigned char)own;
    swapcontext(&contexts[own], &main_context);
    block = realloc(block, size + size / 2 + 1);
    CHECK(block != NULL && block[size - 1] == (unsigned char)own);
    besides += block[size - 1] + size;
    free(block);
  }
}

static void coroutines(void) {
  for (int i = 0; i < coroutine_count; ++i) {
    CHECK(getcontext(&contexts[i]) == 0);
    contexts[i].uc_stack.ss_sp = stacks[i];
    contexts[i].uc_stack.ss_size = sizeof stacks[i];
    contexts[i].uc_link = &main_context;
    makecontext(&contexts[i], (void (*)(void))run_coroutine, 1, i);
  }
  for (int round = 0; round <= count; ++round) {
    for (int i = 0; i < coroutine_count; ++i) CHECK(swapcontext(&main_context, &contexts[i]) == 0);
  }
}

/* ---- Another namespace of ld.so, with a C library of its own. */

static void other_namespace(void) {
  void *module = dlmopen(LM_ID_NEWLM, getenv("ENVIRONMENT_MODULE"), RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) dprintf(2, "%s\n", dlerror());
  CHECK(module != NULL);
  uint64_t (*work)(size_t) = (uint64_t(*)(size_t))dlsym(module, "do_environment_work");
  CHECK(work != NULL);
  besides += work(live_bytes / 4);
}

/* ---- All of them. */

static void nothing(void) {}

static const struct {
  const char *name;
  void (*before)(void), (*after)(void);
} settings[] = {
    {"nothing", nothing, nothing},
    {"close_all", close_all, nothing},
    {"reuse_descriptors", reuse_descriptors, check_descriptors},
    {"limit_descriptors", limit_descriptors, nothing},
    {"leave_root", leave_root, nothing},
    {"lock_memory", lock_memory, nothing},
    {"profile_signals", profile_signals, no_more_signals},
    {"signals_on_own_stack", signals_on_own_stack, no_more_signals},
    {"cancel_threads", cancel_threads, nothing},
    {"many_short_threads", many_short_threads, nothing},
    {"many_living_threads", many_living_threads, end_living_threads},
    {"vfork", start_by_vfork, nothing},
    {"spawn", start_by_spawn, nothing},
    {"clone", start_by_clone, nothing},
    {"fork", fork_beside_threads, nothing},
    {"coroutines", coroutines, nothing},
    {"other_namespace", other_namespace, nothing},
};

static void map_result(void) {
  const int file = open(result_path, O_RDWR | O_CLOEXEC);
  CHECK(file >= 0);
  result = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(result != MAP_FAILED && close(file) == 0);
}

int main(int argc, char **argv) {
  if (argc != 5) return exit_usage;
  result_path = argv[2];
  live_bytes = (size_t)atoi(argv[3]) * MIB;
  count = atoi(argv[4]);
  alarm(patience_seconds);
  map_result();
  for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i) {
    if (strcmp(settings[i].name, argv[1]) != 0) continue;
    settings[i].before();
    const uint64_t checksum = environment_work(live_bytes);
    settings[i].after();
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    *result = (result_t){1, checksum + besides, (uint64_t)usage.ru_maxrss, malloc_usable_size(malloc(100))};
    return 0;
  }
  return exit_usage;
}
