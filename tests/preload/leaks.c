/* Loses blocks at three places, and keeps others in all the ways there are. What each place loses stands in
 * test_leaks.py.
 *
 * leaks [threads|shared|fork|wait|churn|epoll]: other threads, or shared memory, keep blocks too; the child tells as
 * well; the program waits for its stdin to end; meanwhile threads allocate, move and free; or one waits in a call that
 * any signal, and a tracer, would end. leaks sparse: large memory, shared and private, of which few pages were touched,
 * keeps three blocks, and the program waits. leaks over: the first thread ends before the program. leaks
 * call|first|run: a thread that waits in a system call has two blocks, in its registers alone; the first thread waits,
 * with one block's address below its frames and one in the red zone; a thread runs and never waits. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

typedef struct node {
  struct node *next;
  char rest[40];
} node_t;

void *global;
node_t *chain;
char *interior;
_Thread_local void *own;
void **mapped;
void *read_only;
void *volatile unused;

static const size_t sizes[] = {16, 100, 1024, 5000, 32768, 100000, 1 << 20, 3 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Frames that return leave what they had behind: this clears it away. */
__attribute__((noinline)) void clear_stack(void) {
  volatile char room[64 * 1024];
  for (size_t i = 0; i < sizeof room; i++) room[i] = 0;
}

/* Stacks have words of which an int has cleared the lower half: addresses of multiples of 4 GiB. A block that lies
 * there would be found, with what the allocator puts before it (up to 64 KiB). */
static int may_be_found_by_chance(const void *block, size_t bytes) {
  return ((uintptr_t)block - 64 * 1024 - 1) >> 32 != ((uintptr_t)block + bytes - 1) >> 32;
}

static void *fresh(size_t bytes) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  if (may_be_found_by_chance(block, bytes)) {
    void *elsewhere = malloc(bytes);
    CHECK(elsewhere != NULL);
    free(block);
    block = elsewhere;
  }
  memset(block, 0, bytes);
  return block;
}

/* One block of each band: 8 of them. */
__attribute__((noinline)) void lose_all_sizes(void) {
  for (size_t i = 0; i < SIZES; i++) unused = fresh(sizes[i]);
  unused = NULL;
}

/* 1,000 nodes, of which each but the first is pointed at by another. */
__attribute__((noinline)) void lose_a_list(void) {
  node_t *list = NULL;
  for (int i = 0; i < 1000; i++) {
    node_t *node = fresh(sizeof *node);
    node->next = list;
    list = node;
  }
}

/* 10 that point at each other in a ring. */
__attribute__((noinline)) void lose_a_ring(void) {
  node_t *first = fresh(200), *last = first;
  for (int i = 1; i < 10; i++) {
    node_t *node = fresh(200);
    node->next = last;
    last = node;
  }
  first->next = last;
}

__attribute__((noinline)) void keep(void) {
  global = fresh(48);
  for (int i = 0; i < 100; i++) {
    node_t *node = fresh(sizeof *node);
    node->next = chain;
    chain = node;
  }
  interior = (char *)fresh(4000) + 2000;
  own = fresh(64);
  void **big = fresh(2 << 20); /* a block that only the end of a big one leads to */
  big[(2 << 20) / sizeof *big - 1] = fresh(80);
  mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  mapped[600] = big;
  read_only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(read_only != MAP_FAILED);
  *(void **)read_only = fresh(300);
  CHECK(mprotect(read_only, 4096, PROT_READ) == 0);
}

static pthread_barrier_t barrier;

static void *thread(void *argument) {
  void *volatile on_stack = fresh(500);
  own = fresh(700);
  (void)argument;
  clear_stack(); /* the end of a slab is the start of the next one, which may hold a lost block */
  pthread_barrier_wait(&barrier);
  pause();
  return on_stack;
}

static _Atomic(int) is_over;

/* What it has is always in an array that is static. */
static void *churn(void *argument) {
  static void *have[3][64];
  void **mine = have[(intptr_t)argument];
  unsigned long random = 1 + (intptr_t)argument;
  while (!is_over) {
    random = random * 6364136223846793005ul + 1;
    unsigned i = random >> 58;
    if (random >> 33 & 1) {
      mine[i] = realloc(mine[i], sizes[random >> 36 & 7]);
      CHECK(mine[i] != NULL);
      *(void **)mine[i] = mine[63 - i];
    } else {
      free(mine[i]);
      mine[i] = NULL;
    }
  }
  return NULL;
}

static void wait_for_end(int churners) {
  pthread_t id[3];
  for (int i = 0; i < churners; i++) CHECK(pthread_create(&id[i], NULL, churn, (void *)(intptr_t)i) == 0);
  CHECK(write(1, "ready\n", 6) == 6);
  char end;
  while (read(0, &end, 1) > 0) continue;
  is_over = 1;
  for (int i = 0; i < churners; i++) CHECK(pthread_join(id[i], NULL) == 0);
}

static void start_threads(void) {
  pthread_t id;
  pthread_barrier_init(&barrier, NULL, 5);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&id, NULL, thread, NULL) == 0);
  pthread_barrier_wait(&barrier);
}

/* ---- Shared memory. */

static void keep_in(void **memory) {
  CHECK(memory != MAP_FAILED);
  memory[5] = fresh(400);
}

static void keep_in_shared_memory(void) {
  int file = (int)syscall(SYS_memfd_create, "leaks", 0);
  CHECK(file >= 0 && ftruncate(file, 4096) == 0);
  keep_in(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  keep_in(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  /* Most machines have none. */
  void *huge = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (huge != MAP_FAILED) keep_in(huge);
  /* The kernel shows a segment's number as its file's, and the first number is 0, as of memory without a file. */
  int first = shmget(IPC_PRIVATE, 4096, 0600), second = shmget(IPC_PRIVATE, 4096, 0600);
  CHECK(first >= 0 && second >= 0);
  keep_in(shmat(second, NULL, 0));
  CHECK(shmctl(first, IPC_RMID, NULL) == 0 && shmctl(second, IPC_RMID, NULL) == 0);
}

#define SPARSE_BYTES (512 * MIB)
#define PRIVATE_BYTES (4096 * (size_t)MIB)

static void keep_in_sparse_memory(void) {
  char *memory = mmap(NULL, SPARSE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  keep_in((void **)(memory + SPARSE_BYTES / 2));
  keep_in((void **)(memory + SPARSE_BYTES - 4096));
  memory = mmap(NULL, PRIVATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  keep_in((void **)(memory + PRIVATE_BYTES / 2));
}

/* ---- The end of the first thread. */

static void *end_after_first(void *unused) {
  char line[256] = "";
  while (strncmp(line, "-1 0x0 ", 7) != 0) { /* until it has no stack pointer */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t count = read(file, line, sizeof line - 1);
    CHECK(count >= 0 && close(file) == 0);
    line[count] = '\0';
  }
  exit(0);
  return unused;
}

/* ---- Registers. Memory has the complement of an address that is in a register alone. */

static int quiet[2]; /* a pipe in which nothing ever comes */
static char nowhere[8];
static _Atomic(pid_t) waiting_thread;

/* The callers clear away what this leaves on the stack. */
__attribute__((noinline)) uintptr_t hidden(size_t bytes) { return ~(uintptr_t)fresh(bytes); }

/* Reads into one block, and keeps the other in a register that functions leave as it is. */
static void wait_with(uintptr_t hidden_argument, uintptr_t hidden_kept) {
#if defined(__x86_64__)
  long number = SYS_read;
  __asm__ volatile(
      "notq %%rsi\n\t"
      "notq %%rbx\n\t"
      "syscall\n\t"
      "xorl %%esi, %%esi\n\t"
      "xorl %%ebx, %%ebx"
      : "+a"(number), "+S"(hidden_argument), "+b"(hidden_kept)
      : "D"((long)quiet[0]), "d"(8l)
      : "rcx", "r11", "memory");
#else
  register long x8 __asm__("x8") = SYS_read;
  register long x0 __asm__("x0") = quiet[0];
  register uintptr_t x1 __asm__("x1") = hidden_argument;
  register long x2 __asm__("x2") = 8;
  register uintptr_t x20 __asm__("x20") = hidden_kept;
  __asm__ volatile(
      "mvn x1, x1\n\t"
      "mvn x20, x20\n\t"
      "svc 0\n\t"
      "mov x1, xzr\n\t"
      "mov x20, xzr"
      : "+r"(x0), "+r"(x1), "+r"(x20)
      : "r"(x8), "r"(x2)
      : "memory");
#endif
}

/* Has the block's address a little below the stack pointer alone, as a function that calls no other may. */
static void wait_above(uintptr_t hidden_block) {
#if defined(__x86_64__)
  long number = SYS_read;
  __asm__ volatile(
      "subq $256, %%rsp\n\t"
      "notq %%rbx\n\t"
      "movq %%rbx, -120(%%rsp)\n\t"
      "xorl %%ebx, %%ebx\n\t"
      "syscall\n\t"
      "addq $256, %%rsp"
      : "+a"(number), "+b"(hidden_block)
      : "D"((long)quiet[0]), "S"(nowhere), "d"(sizeof nowhere)
      : "rcx", "r11", "memory");
#else /* there is no red zone */
  void *volatile kept = (void *)~hidden_block;
  CHECK(read(quiet[0], nowhere, sizeof nowhere) < 0 || kept != NULL);
#endif
}

static void *wait_in_call(void *unused) {
  waiting_thread = (pid_t)syscall(SYS_gettid);
  uintptr_t argument = hidden(600), kept = hidden(700);
  clear_stack();
  wait_with(argument, kept);
  return unused;
}

/* Until the thread waits for what never comes. */
static void see_it_wait(pid_t thread) {
  char path[64], wanted[32], line[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
  snprintf(wanted, sizeof wanted, "%d 0x%x ", (int)SYS_read, (unsigned)quiet[0]);
  while (strncmp(line, wanted, strlen(wanted)) != 0) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t count = read(file, line, strlen(wanted));
    CHECK(count >= 0 && close(file) == 0);
    line[count] = '\0';
  }
}

static void *end_when_first_waits(void *unused) {
  see_it_wait(getpid());
  exit(0);
  return unused;
}

__attribute__((noinline)) void lose_below(void) {
  void *volatile old[1024];
  for (int i = 0; i < 1024; i++) old[i] = NULL;
  old[0] = fresh(700);
  CHECK(old[0] != NULL);
}

static void *run_on(void *unused) {
  waiting_thread = (pid_t)syscall(SYS_gettid);
  for (;;) continue;
  return unused;
}

static void *wait_uninterrupted(void *unused) {
  struct epoll_event event;
  int queue = epoll_create1(EPOLL_CLOEXEC);
  CHECK(queue >= 0);
  CHECK(epoll_wait(queue, &event, 1, -1) > 0);
  return unused;
}

static void start(void *(*run)(void *)) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, run, NULL) == 0);
}

static void keep_in_registers(const char *how) {
  CHECK(pipe(quiet) == 0);
  if (strcmp(how, "call") == 0 || strcmp(how, "run") == 0) {
    start(*how == 'c' ? wait_in_call : run_on);
    while (waiting_thread == 0) continue;
    if (*how == 'c') see_it_wait(waiting_thread);
  }
  if (strcmp(how, "first") == 0) {
    uintptr_t block = hidden(600);
    clear_stack();
    lose_below();
    start(end_when_first_waits);
    wait_above(block);
  }
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  alarm(120);
  keep();
  lose_all_sizes();
  lose_a_list();
  lose_a_ring();
  void *volatile on_stack = fresh(900);
  if (strcmp(how, "threads") == 0) start_threads();
  if (strcmp(how, "shared") == 0) keep_in_shared_memory();
  if (strcmp(how, "sparse") == 0) keep_in_sparse_memory();
  clear_stack();
  if (strcmp(how, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) {
      lose_a_ring();
      clear_stack();
      exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  keep_in_registers(how);
  if (strcmp(how, "wait") == 0 || strcmp(how, "sparse") == 0) wait_for_end(0);
  if (strcmp(how, "churn") == 0) wait_for_end(3);
  if (strcmp(how, "epoll") == 0) {
    start(wait_uninterrupted);
    wait_for_end(0);
  }
  if (strcmp(how, "over") == 0) {
    free(on_stack); /* this frame ends too */
    start(end_after_first);
    pthread_exit(NULL);
  }
  CHECK(on_stack != NULL);
  exit(0);
}
