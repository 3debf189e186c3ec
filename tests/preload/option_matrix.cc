/* Operations of every kind, by threads that come and go: option_matrix SEED OPERATIONS THREADS
 *
 * A program for every set of options (option_matrix.py): it knows malloc's names alone, so each library can be
 * preloaded. THREADS workers run at once. Each makes, resizes, checks and frees blocks, puts some where other threads
 * take them, forks now and then, and ends in one of several ways or stays alive and sleeps. Every block is filled to
 * the end of its usable bytes with a pattern of its own, and compared with it at each visit; calloc's blocks are zero
 * to the last byte.
 *
 * With one thread the seed repeats every operation, with several the sizes. Prints `operations N threads N sleeps N
 * forks N crowds N`. The program's own records lie in static memory: a damaged block damages no record.
 */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include <atomic>

#include "matrix_shelf.h"

namespace {

constexpr size_t kBlocks = 400;           /* that a worker has at most */
constexpr size_t kWorkerBytes = 4 * kMiB; /* from here on it frees more than it makes */
constexpr size_t kMaxRunning = 16;
constexpr size_t kMaxAsleep = 6;
constexpr size_t kAsleepToEnd = 2;
constexpr size_t kOperationsPerFork = 50000;
constexpr size_t kMostLeft = kMiB;      /* blocks of the C library, and a slab for each of their sizes */
constexpr unsigned kChildSeconds = 300; /* a child of fork that takes longer hangs */
constexpr size_t kCrowd = 40;           /* more than the idle heaps that hakmem's pool has slots for */
constexpr size_t kOperationsPerCrowd = 100000;
/* Operations that earn the sleepers a ms of rest at the end; the purge thread visits a sleeper after 720 ms. */
constexpr size_t kOperationsPerRestMs = 1000, kMostRestMs = 1500;

/* ---- Workers. */

enum class state_t { unused, running, asleep, over };

struct worker_t {
  TestRandom random{0};
  pthread_t thread;
  bool is_detached;
  std::atomic<state_t> state;
  sem_t may_wake;
  size_t operations, target, phase_left, hot_size;
  size_t count, bytes;
  block_t blocks[kBlocks];
};

worker_t workers[kMaxRunning + kMaxAsleep + 1];
sem_t news; /* a worker's state has changed */
pthread_key_t end_key;
std::atomic<size_t> thread_count, sleep_count, fork_count, crowd_count;

void keep(worker_t &self, const block_t &block) {
  self.blocks[self.count++] = block;
  self.bytes += block.usable;
}

block_t remove(worker_t &self, size_t index) {
  block_t block = self.blocks[index];
  self.blocks[index] = self.blocks[--self.count];
  self.bytes -= block.usable;
  return block;
}

/* The newest and any other: stacks and heaps of objects. */
block_t remove_any(worker_t &self) {
  return remove(self, self.random.OneIn(4) ? self.count - 1 : self.random.Below(self.count));
}

void trim(TestRandom &random) {
  if (collect != nullptr && random.OneIn(2)) {
    collect();
  } else {
    malloc_trim(random.OneIn(2) ? 0 : random.Below(4 * kMiB));
  }
}

/* ---- fork. */

void *run_in_child(void *argument) {
  TestRandom random(*(uint64_t *)argument);
  for (int i = 0; i < 20; ++i) drop(make(random));
  return nullptr;
}

/* The child has the blocks of the thread that forked and those on the shelf; it frees all, by two threads, and goes
 * on. */
[[noreturn]] void live_in_child(worker_t &self) {
  alarm(kChildSeconds);
  uint64_t thread_seed = self.random.Next();
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, run_in_child, &thread_seed) == 0);
  while (self.count > 0) drop(remove(self, self.count - 1));
  while (shelf_count > 0) drop(shelf[--shelf_count]);
  pthread_mutex_unlock(&shelf_lock); /* the thread's destructors may put blocks on the shelf */
  CHECK(pthread_join(thread, nullptr) == 0);
  while (shelf_count > 0) drop(shelf[--shelf_count]);
  for (int i = 0; i < 50; ++i) keep(self, make(self.random));
  trim(self.random);
  while (self.count > 0) drop(remove(self, self.count - 1));
  _exit(0);
}

void fork_once(worker_t &self) {
  pthread_mutex_lock(&shelf_lock);
  pid_t child = fork();
  if (child == 0) live_in_child(self);
  pthread_mutex_unlock(&shelf_lock);
  CHECK(child > 0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (status != 0) {
    dprintf(2, "wrong: a child of fork ended with status %#x; seed %#llx\n", (unsigned)status,
            (unsigned long long)seed);
    abort();
  }
  ++fork_count;
}

/* ---- A worker's steps. */

/* A worker moves towards a number of blocks, and every fourth time towards nearly none. */
void next_phase(worker_t &self) {
  self.phase_left = self.random.Between(kBlocks / 4, kBlocks * 4);
  self.target = self.random.OneIn(4) ? self.random.Below(kBlocks / 20) : self.random.Below(kBlocks);
  self.hot_size = draw_size(self.random);
  if (self.hot_size > kMidMax) self.hot_size = 48;
}

void look(worker_t &self) {
  const block_t &block = self.blocks[self.random.Below(self.count)];
  if (malloc_usable_size(block.start) != block.usable) wrong("has another usable size now", block, 0);
  verify(block);
}

void make_one(worker_t &self) {
  size_t size = self.random.OneIn(4) ? self.hot_size : draw_size(self.random);
  keep(self, make_of_size(self.random, size));
}

void hand_around(worker_t &self) {
  block_t block;
  if (self.random.OneIn(2)) {
    block = remove_any(self);
    if (!put(block)) drop(block);
  } else if (take(self.random, block)) {
    if (self.random.OneIn(3) && self.count < kBlocks) {
      resize(self.random, block);
      keep(self, block);
    } else {
      drop(block);
    }
  }
}

void step(worker_t &self) {
  if (self.phase_left-- == 0) next_phase(self);
  size_t draw = self.random.Below(1000);
  if (draw == 0 && self.random.OneIn(kOperationsPerFork / 1000)) return fork_once(self);
  if (draw == 1 && self.random.OneIn(4)) return trim(self.random);
  bool is_full = self.count == kBlocks || self.bytes >= kWorkerBytes;
  if (self.count == 0 || (draw >= 200 && !is_full && self.random.Below(8) < (self.count < self.target ? 5u : 3u))) {
    make_one(self);
  } else if (draw < 20) {
    look(self);
  } else if (draw < 80 && !is_full) {
    size_t index = self.random.Below(self.count);
    block_t block = remove(self, index);
    resize(self.random, block);
    keep(self, block);
  } else if (draw < 200) {
    hand_around(self);
  } else {
    drop(remove_any(self));
  }
}

/* ---- How a worker ends. */

struct note_t {
  worker_t *worker;
  int rounds_left;
};

void set_note(worker_t *worker, int rounds_left) {
  note_t *note = (note_t *)malloc(sizeof *note);
  CHECK(note != nullptr);
  *note = {worker, rounds_left};
  CHECK(pthread_setspecific(end_key, note) == 0);
}

void tell(worker_t &self, state_t state) {
  self.state = state;
  CHECK(sem_post(&news) == 0);
}

/* A thread whose exit handlers allocate, free and leave blocks, in several rounds. */
void on_end(void *value) {
  note_t note = *(note_t *)value;
  free(value);
  for (int i = 0; i < 10; ++i) {
    block_t block = make(note.worker->random);
    if (i % 2 == 0 || !put(block)) drop(block);
  }
  if (note.rounds_left > 0) {
    set_note(note.worker, note.rounds_left - 1);
  } else {
    tell(*note.worker, state_t::over);
  }
}

void *run_worker(void *argument) {
  worker_t &self = *(worker_t *)argument;
  next_phase(self);
  for (size_t i = 0; i < self.operations; ++i) step(self);
  if (self.random.OneIn(3)) { /* its heap stays its own while others free its blocks */
    while (self.count > 50 && put(self.blocks[self.count - 1])) remove(self, self.count - 1);
    tell(self, state_t::asleep);
    while (sem_wait(&self.may_wake) != 0) CHECK(errno == EINTR);
  }
  while (self.count > 0) {
    block_t block = remove_any(self);
    if (self.random.OneIn(2) || !put(block)) drop(block);
  }
  bool calls_exit = self.random.OneIn(3);
  if (self.random.OneIn(2)) {
    set_note(&self, (int)self.random.Below(3)); /* tells the end */
  } else {
    tell(self, state_t::over); /* from here on another worker may have the record */
  }
  if (calls_exit) pthread_exit(nullptr);
  return nullptr;
}

void start(worker_t &worker, TestRandom &random, size_t operations) {
  worker.random = TestRandom(random.Next());
  worker.operations = operations;
  worker.is_detached = random.OneIn(3);
  worker.count = worker.bytes = 0;
  worker.state = state_t::running;
  CHECK(sem_init(&worker.may_wake, 0, 0) == 0);
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setdetachstate(&attributes,
                                    worker.is_detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE) == 0);
  CHECK(pthread_create(&worker.thread, &attributes, run_worker, &worker) == 0);
  CHECK(pthread_attr_destroy(&attributes) == 0);
  ++thread_count;
}

/* ---- Many threads at once, so that as many heaps are idle when they have ended. */

struct guest_t {
  TestRandom random{0};
  pthread_t thread;
  block_t blocks[10];
};

pthread_barrier_t all_are_there;

void *run_guest(void *argument) {
  guest_t &self = *(guest_t *)argument;
  for (block_t &block : self.blocks) block = make_of_size(self.random, self.random.Below(kTinyMax));
  pthread_barrier_wait(&all_are_there);
  return nullptr;
}

void gather_crowd(TestRandom &random) {
  static guest_t guests[kCrowd];
  CHECK(pthread_barrier_init(&all_are_there, nullptr, kCrowd) == 0);
  for (guest_t &guest : guests) {
    guest.random = TestRandom(random.Next());
    CHECK(pthread_create(&guest.thread, nullptr, run_guest, &guest) == 0);
  }
  for (guest_t &guest : guests) CHECK(pthread_join(guest.thread, nullptr) == 0);
  CHECK(pthread_barrier_destroy(&all_are_there) == 0);
  for (guest_t &guest : guests) {
    for (const block_t &block : guest.blocks) {
      if (random.OneIn(2) || !put(block)) drop(block);
    }
  }
  ++crowd_count;
}

/* Frees blocks of threads that sleep, and leaves them and the purge thread time. */
void rest(size_t operations) {
  block_t block;
  TestRandom random(seed);
  while (take(random, block)) drop(block);
  size_t rest_ms = operations / kOperationsPerRestMs;
  usleep((useconds_t)(rest_ms < kMostRestMs ? rest_ms : kMostRestMs) * 1000);
}

/* Keeps `running_wanted` workers at work until `operations` are done, beside those that sleep: the first ones until the
 * end, each other one until too many do. */
void run_all(TestRandom &random, size_t operations, size_t running_wanted) {
  worker_t *asleep[sizeof workers / sizeof *workers];
  size_t running = 0, asleep_count = 0, all_operations = operations;
  bool has_rested = false;
  for (;;) {
    for (worker_t &worker : workers) {
      if (worker.state == state_t::asleep) {
        worker.state = state_t::running; /* as far as is told: it waits for may_wake */
        asleep[asleep_count++] = &worker;
        ++sleep_count;
        --running;
      } else if (worker.state == state_t::over) {
        if (!worker.is_detached) CHECK(pthread_join(worker.thread, nullptr) == 0);
        worker.state = state_t::unused;
        --running;
      }
    }
    if (running == 0 && operations == 0 && asleep_count > 0 && !has_rested) {
      rest(all_operations);
      has_rested = true;
    }
    if (asleep_count > kMaxAsleep || (running == 0 && operations == 0 && asleep_count > 0)) {
      size_t woken = asleep_count > kMaxAsleep ? kAsleepToEnd : 0;
      CHECK(sem_post(&asleep[woken]->may_wake) == 0);
      --asleep_count;
      for (size_t i = woken; i < asleep_count; ++i) asleep[i] = asleep[i + 1];
      ++running;
    }
    for (worker_t &worker : workers) {
      if (running >= running_wanted || operations == 0) break;
      if (worker.state != state_t::unused) continue;
      size_t own = random.LogBetween(100, 20000);
      if (own > operations) own = operations;
      operations -= own;
      if (random.Below(kOperationsPerCrowd) < own) gather_crowd(random);
      start(worker, random, own);
      ++running;
    }
    if (running == 0) return;
    while (sem_wait(&news) != 0) CHECK(errno == EINTR);
  }
}

/* A block that its owner never collected keeps its slab in use. Detached threads may have told their end and not
 * have reached it. */
void check_all_is_back(void) {
  size_t left = SIZE_MAX;
  for (int i = 0; i < 10000 && left > kMostLeft; ++i) {
    if (i > 0) usleep(1000);
    collect();
    left = mallinfo2().uordblks;
  }
  if (left <= kMostLeft) return;
  dprintf(2, "wrong: %zu bytes are in use when all is freed; seed %#llx\n", left, (unsigned long long)seed);
  abort();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return exit_usage;
  seed = strtoull(argv[1], nullptr, 0);
  size_t operations = strtoull(argv[2], nullptr, 10);
  size_t running = strtoull(argv[3], nullptr, 10);
  if (running < 1 || running > kMaxRunning) return exit_usage;
  CHECK(sem_init(&news, 0, 0) == 0 && pthread_key_create(&end_key, on_end) == 0);
  find_extensions();
  TestRandom random(seed);
  run_all(random, operations, running);
  while (shelf_count > 0) drop(shelf[--shelf_count]);
  if (collect != nullptr) check_all_is_back();
  printf("operations %zu threads %zu sleeps %zu forks %zu crowds %zu\n", operations, (size_t)thread_count,
         (size_t)sleep_count, (size_t)fork_count, (size_t)crowd_count);
  return 0;
}
