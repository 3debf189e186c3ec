/* Threads that end in one way: thread_ends WAY THREADS AT_ONCE
 *
 * Each thread allocates and frees, and leaves some blocks in a ring, from where threads that come later free them. Once
 * a thread has ended nothing of it may stay: resident memory does not grow with the number of threads that have come
 * and gone. Prints `quarter KIB end KIB`. With a fourth word the first thread ends too, by pthread_exit.
 */
#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>

extern "C" {
#include "check.h"
}

namespace {

/* 300 heaps that stayed would have three times as much; a span or two that another way of taking turns needs, a
 * quarter. */
constexpr int growth_limit_kib = 4096, ring_size = 4000, kept_count = 100, stack_bytes = 256 << 10,
              large_stack_bytes = 24 << 20;

std::atomic<void *> ring[ring_size];
std::atomic<unsigned> ring_at;
sem_t may_begin;
long others_count; /* threads beside those that end */

/* A number of a thread that has not ended, as the first one may have. */
long own_status(const char *name) {
  char text[8192];
  const int file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  CHECK(length > 0);
  text[length] = 0;
  const char *line = strstr(text, name);
  CHECK(line != nullptr);
  return atol(line + strlen(name));
}

void churn(unsigned seed) {
  static const size_t sizes[] = {24, 100, 200, 1000, 3000, 20000, 100000, 1500000};
  void *blocks[sizeof sizes / sizeof *sizes];
  size_t count = seed % 16 == 0 ? sizeof sizes / sizeof *sizes : sizeof sizes / sizeof *sizes - 1;
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != nullptr);
    memset(blocks[i], (int)seed, sizes[i] < 100 ? sizes[i] : 100);
  }
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
}

void leave_blocks(void) {
  for (int i = 0; i < kept_count; ++i) {
    void *block = malloc(100);
    CHECK(block != nullptr);
    memset(block, i, 100);
    free(ring[ring_at++ % ring_size].exchange(block));
  }
}

void live(void) {
  churn(ring_at);
  leave_blocks();
}

/* ---- Ways to end. */

void *just_return(void *unused) {
  live();
  sem_post(&may_begin);
  return unused;
}

/* The C library keeps the stacks of ended threads up to 40 MiB, and the thread that ends next frees what belongs to the
 * others. That is all that such a thread has to do with malloc, and it comes when all destructors have run. */
void *do_nothing(void *unused) {
  sem_post(&may_begin);
  return unused;
}

void *call_exit(void *unused) {
  just_return(unused);
  pthread_exit(nullptr);
}

void *wait_for_cancel(void *) {
  live();
  for (;;) pause();
}

struct local_t {
  void *block = malloc(500);
  ~local_t() {
    churn(1);
    free(block);
    leave_blocks();
  }
};
thread_local local_t local;

void *use_thread_local(void *unused) {
  memset(local.block, 1, 500);
  return just_return(unused);
}

constexpr int key_count = 3;
pthread_key_t keys[key_count];

struct note_t {
  int key, round;
};

void set_note(int key, int round) {
  note_t *note = static_cast<note_t *>(malloc(sizeof *note));
  *note = {key, round};
  CHECK(pthread_setspecific(keys[key], note) == 0);
}

void on_end(void *value) {
  note_t *note = static_cast<note_t *>(value);
  churn((unsigned)note->round);
  leave_blocks();
  if (note->round < 3) set_note(note->key, note->round + 1);
  free(note);
}

void *use_keys(void *unused) {
  for (int key = 0; key < key_count; ++key) set_note(key, 0);
  return just_return(unused);
}

/* A first allocation in the last round of the destructors, when an exit handler of the allocator's comes too late. */
pthread_key_t late_key;
char round_mark[PTHREAD_DESTRUCTOR_ITERATIONS + 1];

void on_late_end(void *value) {
  char *mark = static_cast<char *>(value);
  if (mark == &round_mark[PTHREAD_DESTRUCTOR_ITERATIONS]) {
    live();
  } else {
    CHECK(pthread_setspecific(late_key, mark + 1) == 0);
  }
}

void *live_in_last_round(void *unused) {
  CHECK(pthread_setspecific(late_key, &round_mark[1]) == 0);
  return do_nothing(unused);
}

/* ---- Threads of a bare clone, which the C library has not made. */

#if defined(__x86_64__)
constexpr bool has_clone = true;

int live_bare(void *) {
  live();
  return 0;
}

void run_bare(int count, int at_once) {
  auto make_tls = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
  auto free_tls = (void (*)(void *, bool))dlsym(RTLD_DEFAULT, "_dl_deallocate_tls");
  CHECK(make_tls != nullptr && free_tls != nullptr);
  for (int done = 0; done < count; done += at_once) {
    struct {
      void **tls;
      char *stack;
      std::atomic<int> is_alive;
    } threads[16];
    for (int i = 0; i < at_once; ++i) {
      threads[i].tls = static_cast<void **>(make_tls(nullptr));
      threads[i].stack = static_cast<char *>(
          mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
      CHECK(threads[i].tls != nullptr && threads[i].stack != MAP_FAILED);
      threads[i].tls[0] = threads[i].tls[2] = threads[i].tls; /* the thread's own address, twice */
      void **own = reinterpret_cast<void **>(pthread_self());
      threads[i].tls[5] = own[5]; /* what guards stacks and stored addresses */
      threads[i].tls[6] = own[6];
      threads[i].is_alive = 1;
      const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                        CLONE_SETTLS | CLONE_CHILD_CLEARTID;
      CHECK(clone(live_bare, threads[i].stack + stack_bytes, flags, nullptr, nullptr, threads[i].tls,
                  &threads[i].is_alive) > 0);
    }
    for (int i = 0; i < at_once; ++i) {
      while (threads[i].is_alive != 0) sched_yield();
      free_tls(threads[i].tls, true);
      CHECK(munmap(threads[i].stack, stack_bytes) == 0);
    }
  }
}
#else
constexpr bool has_clone = false;
void run_bare(int, int) {}
#endif

/* ---- All of them. */

/* One that is to be cancelled is so at once, while it works, or while it waits. */
struct way_t {
  const char *name;
  void *(*run)(void *);
  bool is_detached, is_cancelled;
} const ways[] = {
    {"joined", just_return, false, false},
    {"detached", just_return, true, false},
    {"exited", call_exit, false, false},
    {"exited_detached", call_exit, true, false},
    {"cancelled", wait_for_cancel, false, true},
    {"cancelled_detached", wait_for_cancel, true, true},
    {"local", use_thread_local, false, false},
    {"local_detached", use_thread_local, true, false},
    {"nothing", do_nothing, false, false},
    {"nothing_detached", do_nothing, true, false},
    {"keys", use_keys, false, false},
    {"keys_detached", use_keys, true, false},
    {"last_round", live_in_last_round, false, false},
    {"last_round_detached", live_in_last_round, true, false},
};

size_t stack_of(const way_t &way) { return way.run == do_nothing ? large_stack_bytes : stack_bytes; }

pthread_t begin(const way_t &way) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack_of(way)) == 0);
  if (way.is_detached) CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, way.run, nullptr) == 0);
  if (way.is_cancelled) CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_attr_destroy(&attributes) == 0);
  return thread;
}

void run(const way_t &way, int count, int at_once) {
  pthread_t threads[16];
  for (int done = 0; done < count; done += at_once) {
    for (int i = 0; i < at_once; ++i) threads[i] = begin(way);
    for (int i = 0; i < at_once; ++i) {
      if (!way.is_cancelled) CHECK(sem_wait(&may_begin) == 0);
      if (!way.is_detached) CHECK(pthread_join(threads[i], nullptr) == 0);
    }
    while (own_status("Threads:") > others_count) sched_yield(); /* detached ones may lag */
  }
}

void run_any(const char *name, int count, int at_once) {
  if (strcmp(name, "clone") == 0) {
    run_bare(count, at_once);
    return;
  }
  for (const way_t &way : ways) {
    if (strcmp(way.name, name) == 0) {
      run(way, count, at_once);
      return;
    }
  }
  exit(exit_usage);
}

const char *wanted;
int thread_count, at_once;

/* The C library takes no locks before the first thread that it has made itself. */
void *stay(void *) {
  for (;;) pause();
}

void measure(void) {
  others_count = own_status("Threads:");
  run_any(wanted, thread_count / 4, at_once);
  const long quarter = own_status("VmRSS:");
  run_any(wanted, thread_count - thread_count / 4, at_once);
  const long end = own_status("VmRSS:");
  printf("quarter %ld end %ld\n", quarter, end);
  fflush(stdout);
  CHECK(end - quarter <= growth_limit_kib);
}

void *measure_and_exit(void *) {
  measure();
  exit(0);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) return exit_usage;
  wanted = argv[1];
  thread_count = atoi(argv[2]);
  at_once = atoi(argv[3]);
  if (at_once < 1 || at_once > 16) return exit_usage;
  alarm(300);
  CHECK(sem_init(&may_begin, 0, 0) == 0);
  for (pthread_key_t &key : keys) CHECK(pthread_key_create(&key, on_end) == 0);
  CHECK(pthread_key_create(&late_key, on_late_end) == 0);
  if (strcmp(wanted, "clone") == 0 && !has_clone) return exit_skipped;
  pthread_t staying;
  CHECK(pthread_create(&staying, nullptr, stay, nullptr) == 0);
  if (argc == 4) {
    measure();
    return 0;
  }
  /* The first thread ends too, as soon as another one goes on. */
  live();
  pthread_t other;
  CHECK(pthread_create(&other, nullptr, measure_and_exit, nullptr) == 0);
  pthread_exit(nullptr);
}
