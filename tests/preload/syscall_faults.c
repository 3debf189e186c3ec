/* The system refuses calls of the library in the middle of things: syscall_faults SEED STEPS THREADS SERVED
 *
 * refuse_nth runs it. Random work in every size band by the first thread, and by THREADS more that begin and end, each
 * with what the thread before it left, and that free each other's blocks. A request may get NULL with ENOMEM, nothing
 * else may show. Then the refusals end, and all must be had again. SERVED is `served` where a serving thread is called
 * for meanwhile, by its signals and over its socket, `alone` where not. Prints nothing.
 */
#include "check.h"
#include "supervised.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

enum { slot_count = 60, round_count = 3, most_threads = 4, handed_over_count = 64, steps_a_trim = 150 };

typedef struct {
  unsigned char *block;
  size_t size;
} slot_t;

/* One at a time has it: a thread, and its successor. */
typedef struct {
  slot_t slots[slot_count];
  unsigned random_state;
  int steps;
} worker_t;

static worker_t workers[most_threads + 1];
static _Atomic(void *) handed_over[handed_over_count];
static atomic_int must_succeed;

static unsigned draw(worker_t *worker, unsigned below) { return next_random(&worker->random_state) % below; }

static size_t draw_size(worker_t *worker) {
  switch (draw(worker, 8)) {
    case 0:
    case 1:
      return 1 + draw(worker, 1024);
    case 2:
      return 1025 + draw(worker, 8000);
    case 3:
      return 9000 + draw(worker, 24000);
    case 4:
    case 5:
      return 32769 + draw(worker, 400000);
    case 6:
      return 1 * MIB + draw(worker, 2 * MIB);
    default:
      return 3 * MIB + draw(worker, 12 * MIB);
  }
}

/* Big blocks are looked at where they begin and end: the middle would only cost time. */
static size_t edge(size_t size) { return size < 8192 ? size : 4096; }

static void mark(slot_t *slot, unsigned seed) {
  paint(slot->block, edge(slot->size), seed);
  paint(slot->block + slot->size - edge(slot->size), edge(slot->size), seed);
}

static void look(const slot_t *slot, unsigned seed) {
  CHECK(is_painted(slot->block, edge(slot->size), seed));
  CHECK(is_painted(slot->block + slot->size - edge(slot->size), edge(slot->size), seed));
}

static int was_refused(const void *block) {
  if (block != NULL) return 0;
  CHECK(errno == ENOMEM && !must_succeed);
  return 1;
}

static void free_checked(void *block) {
  errno = 12345;
  free(block);
  CHECK(errno == 12345);
}

static void take(worker_t *worker, slot_t *slot, unsigned index) {
  const size_t size = draw_size(worker);
  const unsigned how = draw(worker, 4);
  unsigned char *block;
  errno = 0;
  if (how == 0) {
    block = calloc(1, size);
    if (block != NULL) CHECK(block[0] == 0 && memcmp(block, block + 1, edge(size) - 1) == 0 && block[size - 1] == 0);
  } else if (how == 1) {
    const size_t alignment = (size_t)16 << draw(worker, 18);
    block = memalign(alignment, size);
    CHECK((uintptr_t)block % alignment == 0);
  } else {
    block = malloc(size);
  }
  if (was_refused(block)) return;
  CHECK(malloc_usable_size(block) >= size);
  *slot = (slot_t){block, size};
  mark(slot, index);
}

static void resize(worker_t *worker, slot_t *slot, unsigned index) {
  const size_t size = draw(worker, 3) == 0 ? draw_size(worker) : slot->size + slot->size / 2;
  errno = 0;
  unsigned char *block = realloc(slot->block, size);
  if (was_refused(block)) {
    look(slot, index);
    return;
  }
  slot->block = block;
  CHECK(is_painted(block, size < edge(slot->size) ? size : edge(slot->size), index));
  slot->size = size;
  mark(slot, index);
}

static void give_back(worker_t *worker, slot_t *slot, unsigned index) {
  look(slot, index);
  void *block = slot->block;
  slot->block = NULL;
  if (draw(worker, 3) == 0) block = atomic_exchange(&handed_over[draw(worker, handed_over_count)], block);
  free_checked(block);
}

static void step(worker_t *worker) {
  const unsigned index = draw(worker, slot_count);
  slot_t *slot = &worker->slots[index];
  if (slot->block == NULL) {
    take(worker, slot, index);
  } else if (draw(worker, 4) == 0) {
    resize(worker, slot, index);
  } else {
    give_back(worker, slot, index);
  }
}

static void *work(void *argument) {
  worker_t *worker = (worker_t *)argument;
  for (int i = 1; i <= worker->steps; ++i) {
    step(worker);
    if (i % steps_a_trim == 0) malloc_trim(0);
  }
  return NULL;
}

static void free_all(worker_t *worker) {
  for (unsigned i = 0; i < slot_count; ++i) {
    if (worker->slots[i].block != NULL) give_back(worker, &worker->slots[i], i);
  }
}

/* ---- The serving thread. */

/* As the command line tool sends it (cli/hakmem/wake.py), by the default of `attach_signal`. */
enum { tool_signal = 58 };
#define TOOL_VALUE ((uintptr_t)0x68616b6d656d)

/* Without a handler it would end the program. */
static int is_heard(int number) {
  struct sigaction found;
  CHECK(sigaction(number, NULL, &found) == 0);
  return (found.sa_flags & SA_SIGINFO) != 0;
}

/* The file's turn, and the socket's. */
static void call_for_service(void) {
  CHECK((is_heard(tool_signal) && is_heard(SIGUSR2)) || !must_succeed);
  if (!is_heard(tool_signal) || !is_heard(SIGUSR2)) return;
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_signo = tool_signal;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = (void *)TOOL_VALUE;
  CHECK(raw_call(SYS_rt_sigqueueinfo, getpid(), tool_signal, (long)&info, 0) == 0);
  CHECK(kill(getpid(), SIGUSR2) == 0);
}

/* -1: there is no listener. */
static int reach(unsigned turn) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = turn == 0 ? snprintf(address.sun_path + 1, 64, "hakmem/%d", (int)getpid())
                         : snprintf(address.sun_path + 1, 64, "hakmem/%d.%u", (int)getpid(), turn);
  int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(file >= 0);
  /* A client of a socket that the library could not close would wait for ever. */
  struct timeval patience = {.tv_usec = 20000};
  CHECK(setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
  if (connect(file, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ==
      0) {
    return file;
  }
  close(file);
  return -1;
}

static int is_answered(int file, const char *command) {
  struct timeval patience = {.tv_usec = must_succeed ? 900000 : 20000};
  char answer[4096];
  CHECK(setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  if (send(file, command, strlen(command), MSG_NOSIGNAL) < 0) return 0;
  ssize_t length = recv(file, answer, sizeof answer - 1, 0);
  return length >= 3 && memcmp(answer, "ok ", 3) == 0;
}

static int is_served(const char *command) {
  for (unsigned turn = 0; turn < 8; turn++) {
    int file = reach(turn);
    if (file < 0) continue;
    int answered = is_answered(file, command);
    close(file);
    if (answered) return 1;
  }
  return 0;
}

/* Once the refusals have ended it is there again when it is called, however often it has to be. */
static void use_service(const char *command) {
  for (int i = 0; i < (must_succeed ? 200 : 2); ++i) {
    call_for_service();
    for (int j = 0; j < 10; ++j) {
      usleep(1000);
      if (is_served(command)) return;
    }
  }
  CHECK(!must_succeed);
}

/* ---- The course. */

static void run_round(int thread_count) {
  pthread_t threads[most_threads];
  int started[most_threads];
  for (int i = 0; i < thread_count; ++i) {
    started[i] = pthread_create(&threads[i], NULL, work, &workers[i + 1]) == 0;
    CHECK(started[i] || !must_succeed);
  }
  work(&workers[0]);
  for (int i = 0; i < thread_count; ++i) {
    if (started[i]) CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

static void use_each_band(void) {
  static const size_t sizes[] = {1, 100, 1000, 5000, 30000, 40000, 300000, MIB, 3 * MIB, 12 * MIB};
  worker_t *worker = &workers[0];
  free_all(worker);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    slot_t slot = {calloc(1, sizes[i]), sizes[i]};
    CHECK(slot.block != NULL && slot.block[0] == 0 && slot.block[sizes[i] - 1] == 0);
    mark(&slot, i);
    resize(worker, &slot, i);
    look(&slot, i);
    free_checked(slot.block);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return exit_usage;
  const int thread_count = atoi(argv[3]), is_serving = strcmp(argv[4], "served") == 0;
  CHECK(thread_count <= most_threads);
  for (int i = 0; i <= thread_count; ++i) {
    workers[i].random_state = (unsigned)atol(argv[1]) * 31 + (unsigned)i;
    workers[i].steps = atoi(argv[2]) / round_count;
  }
  for (int round = 0; round < round_count; ++round) {
    run_round(thread_count);
    if (is_serving) use_service(round % 2 == 0 ? "stats json\n" : "map\n");
  }
  end_refusals();
  must_succeed = 1;
  run_round(thread_count);
  use_each_band();
  if (is_serving) use_service("protocol\n");
  for (int i = 0; i <= thread_count; ++i) free_all(&workers[i]);
  for (int i = 0; i < handed_over_count; ++i) free_checked(handed_over[i]);
  return 0;
}
