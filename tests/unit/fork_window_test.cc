// A signal handler that forks between any two instructions of a hand-over. The child goes on where the handler had
// interrupted it, so the heaps that it held, the repair's view of them, and its own further steps must fit: each heap
// has one place in the end, its thread's or one in the pool.
//
// Nothing here is left to chance: a tracer steps through the act one instruction at a time, and before each of them has
// the signal delivered; but in a loop only the first times round.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "os/lock.h"
#include "support/in_child.h"
#include "support/scale.h"
#include "unit/heap_driver.h"
#include "unit/tracer.h"

extern "C" {
#include "api/lifecycle.h"
#include "heap/part.h"
#include "space/superslab_index.h"
}

using namespace hk_test;

namespace {

// ---- The child's findings.

enum Verdict { kWell, kInTwoPlaces, kOwnIsInThePool, kGone, kNoMemory, kSpaceIsWrong };

constexpr unsigned kClass = 4;

// A thread that is not in the child has it, and is at rest: the at-fork hook has it adopted.
hk_heap_t *strangers_heap;

// Parts that the thread has: heaps that are in no pool.
size_t own_parts;

// A thread had a heap, and it was in the pool all the same.
bool was_in_pool_too;

void LookFor(hk_heap_t *heap) { was_in_pool_too |= hk_heap_take_this(heap); }

// Takes all heaps out of the pool, as threads that begin now would.
Verdict LookAtPool(bool hook_has_run) {
  if (was_in_pool_too) return kInTwoPlaces;
  hk_lock_wait_for_repair();
  size_t count = HeapCount();
  size_t expected = count - (hk_thread_own() != HK_EMPTY_HEAP) - (hook_has_run ? 0 : 1) - own_parts;
  std::set<hk_heap_t *> taken;
  for (;;) {
    hk_heap_t *heap = hk_heap_take();
    if (heap == nullptr) return kNoMemory;
    if (HeapCount() > count) break;
    if (heap == hk_thread_own()) return kOwnIsInThePool;
    if (!taken.insert(heap).second) return kInTwoPlaces;
    hk_block_t *block = Alloc(heap, kClass);
    if (block == nullptr) return kNoMemory;
    Free(heap, block);
  }
  return taken.size() == expected ? kWell : kGone;
}

// ---- The child that is stepped through, and its children.

struct Course {
  std::atomic<bool> is_acting;
  std::atomic<bool> is_over;
  std::atomic<int> verdict; /* of the last child: what WaitForChild says */
};

Shared<Course> *course;
pid_t (*divide)();
bool is_child_of_handler;

// What the child does at once, as one in which the thread of the act has vanished; NULL: it goes on with the act.
Verdict (*look_at_once)();

void ForkHere(int) {
  int saved_errno = errno;
  pid_t child = divide();
  if (child == 0) {
    is_child_of_handler = true;
    alarm(kChildSeconds);
    if (look_at_once != nullptr) _exit(look_at_once());
  } else {
    (*course)->verdict = WaitForChild(child);
    raise(SIGSTOP); /* for the tracer */
  }
  errno = saved_errno;
}

struct Scene {
  void (*set_up)();
  void (*act)();
  Verdict (*look)(bool hook_has_run);
  int times_round = 2; /* how often an instruction is a place */
};

int Perform(const Scene &scene) {
  hk_lifecycle_start();
  scene.set_up();
  struct sigaction action = {};
  action.sa_handler = ForkHere;
  sigaction(SIGUSR1, &action, nullptr);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 255;
  raise(SIGSTOP);
  (*course)->is_acting = true;
  scene.act();
  if (!is_child_of_handler) (*course)->is_over = true;
  return scene.look(is_child_of_handler && divide == fork);
}

// ---- The tracer.

// How many places it has looked at; -1 when it got lost. `wrong` says which fault was found where.
int StepThrough(pid_t child, int times_round, std::string *wrong) {
  int places = 0;
  std::map<uint64_t, int> times;
  while (Go(child, PTRACE_SINGLESTEP, 0) == SIGTRAP) {
    if ((*course)->is_over) return places;
    if (!(*course)->is_acting) continue;
    Position here = PositionOf(child);
    if (++times[here.pc] > times_round) continue;
    places++;
    if (Go(child, PTRACE_CONT, SIGUSR1) != SIGSTOP) return -1;
    int verdict = (*course)->verdict;
    if (verdict != kWell) *wrong += std::to_string(places) + ":" + std::to_string(verdict) + " ";
    if (!LeaveHandler(child, here)) return -1;
  }
  return -1;
}

// NULL: the C library has none.
pid_t (*UnderscoreFork())() { return reinterpret_cast<pid_t (*)()>(dlsym(RTLD_DEFAULT, "_Fork")); }

void RunCourse(pid_t (*fork_function)(), const Scene &scene) {
  Shared<Course> shared;
  course = &shared;
  divide = fork_function;
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    _exit(Perform(scene));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::string wrong;
  int places = StepThrough(child, scene.times_round, &wrong);
  if (places < 0) kill(child, SIGKILL);
  ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  EXPECT_EQ(WaitForChild(child), kWell) << "the parent itself";
  EXPECT_GE(places, 30) << "it was stepped through";
  EXPECT_EQ(wrong, "") << "place:verdict, of " << places << " places";
}

class ForkWindow : public testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's own code would be stepped through";
    if (!MayTrace()) GTEST_SKIP() << "no tracing here";
  }

  static void Step(const Scene &scene) { RunCourse(fork, scene); }

  // Also by _Fork: no handler runs, and the repair comes with the next lock, maybe in the act itself.
  static void StepByBoth(const Scene &scene) {
    RunCourse(fork, scene);
    if (UnderscoreFork() != nullptr) RunCourse(UnderscoreFork(), scene);
  }
};

// ---- Scenes.

void GiveBackNew(unsigned count) {
  for (hk_heap_t *heap : TakeMany(count)) hk_heap_give_back(heap);
}

void SetUpEmptyPool() { strangers_heap = hk_heap_take(); }

void SetUpPool() {
  SetUpEmptyPool();
  GiveBackNew(3);
}

void SetUpBeyondSlots() {
  SetUpEmptyPool();
  GiveBackNew(HK_POOL_SLOTS + 2);
}

void SetUpFullSlots() {
  SetUpEmptyPool();
  GiveBackNew(HK_POOL_SLOTS);
  hk_thread_heap = hk_heap_create(hk_heap_own);
}

void Begin() { hk_thread_leave(hk_thread_enter()); }

TEST_F(ForkWindow, AThreadBegins) { Step({SetUpPool, Begin, LookAtPool}); }
TEST_F(ForkWindow, AThreadBeginsWithANewHeap) { Step({SetUpEmptyPool, Begin, LookAtPool}); }
TEST_F(ForkWindow, AThreadBeginsWithAHeapFromBeyondTheSlots) { StepByBoth({SetUpBeyondSlots, Begin, LookAtPool}); }

void SetUpThread() {
  SetUpPool();
  Begin();
}

TEST_F(ForkWindow, AThreadEnds) { Step({SetUpThread, hk_thread_on_exit, LookAtPool}); }
TEST_F(ForkWindow, AThreadEndsWhenAllSlotsAreFull) { StepByBoth({SetUpFullSlots, hk_thread_on_exit, LookAtPool}); }

void SetUpLeavingThread() {
  SetUpPool();
  hk_thread_on_exit();
  hk_thread_on_exit();
}

void Borrow() {
  hk_thread_lease_t lease = hk_thread_enter();
  LookFor(lease.heap);
  hk_thread_leave(lease);
}

TEST_F(ForkWindow, AThreadThatIsLeavingBorrows) { StepByBoth({SetUpLeavingThread, Borrow, LookAtPool}); }

// The heap that the thread meets in the act.
hk_heap_t *met;
hk_block_t *met_block;

void GiveBackMet() {
  met = hk_heap_take();
  met_block = Alloc(met, kClass);
  hk_heap_give_back(met);
}

void SetUpMet() {
  SetUpPool();
  GiveBackMet();
}

void SetUpMetBeyondSlots() {
  SetUpEmptyPool();
  std::vector<hk_heap_t *> others = TakeMany(HK_POOL_SLOTS + 1);
  met = hk_heap_create(hk_heap_own);
  for (hk_heap_t *heap : others) hk_heap_give_back(heap);
  hk_heap_give_back(met);
}

void Follow() { hk_thread_attach_if_idle(met); }

TEST_F(ForkWindow, AThreadFollowsABlock) { Step({SetUpMet, Follow, LookAtPool}); }
TEST_F(ForkWindow, AThreadFollowsABlockBeyondTheSlots) { StepByBoth({SetUpMetBeyondSlots, Follow, LookAtPool}); }

void FreeOfIdle() { hk_remote_free_now(hk_slab_of(met_block), met_block); }

TEST_F(ForkWindow, AnIdleHeapIsDrained) { Step({SetUpMet, FreeOfIdle, LookAtPool}); }

void SetUpThief() {
  SetUpMet();
  hk_thread_heap = hk_heap_create(hk_heap_own);
}

void Steal() { (void)hk_steal_span(hk_thread_own(), kClass); }

TEST_F(ForkWindow, ASpanMoves) { Step({SetUpThief, Steal, LookAtPool}); }

void SetUpTwoIdle() {
  SetUpEmptyPool();
  GiveBackNew(2);
}

void VisitIdle() {
  hk_heap_visit_idle([](hk_heap_t *heap) {
    hk_heap_enter_taken(heap);
    LookFor(heap);
    hk_heap_leave(heap);
  });
}

TEST_F(ForkWindow, IdleHeapsAreVisited) { Step({SetUpTwoIdle, VisitIdle, LookAtPool}); }

// ---- Parts of a named heap.

hk_named_t *named;
size_t visited;
void CountVisit(hk_heap_t *) { visited++; }

void SetUpNamed() {
  SetUpPool();
  Begin();
  named = hk_named_create(hk_named_heap, "scene");
}

void AcquirePart() { (void)hk_part_acquire(named); }

void SetUpPart() {
  SetUpNamed();
  AcquirePart();
}

// The thread has its part, once, and another thread may not take it. In a child of _Fork the part may be lost; the
// named heap ends all the same.
Verdict LookAtParts(bool hook_has_run) {
  hk_lock_wait_for_repair();
  if (hook_has_run || !is_child_of_handler) {
    hk_heap_t *part = hk_part_acquire(named);
    if (part == nullptr) return kNoMemory;
    if (hk_heap_take_this(part)) return kOwnIsInThePool;
    visited = 0;
    hk_part_visit_own(CountVisit);
    if (visited != 1) return visited == 0 ? kGone : kInTwoPlaces;
    own_parts = 1;
    Verdict pool = LookAtPool(hook_has_run);
    if (pool != kWell) return pool;
  }
  hk_part_end_all(named, nullptr, nullptr);
  hk_thread_on_exit();
  return kWell;
}

void VisitOwnParts() { hk_part_visit_own(CountVisit); }
void VisitNamed() { hk_part_visit(named, CountVisit); }

TEST_F(ForkWindow, APartIsMade) { StepByBoth({SetUpNamed, AcquirePart, LookAtParts}); }
TEST_F(ForkWindow, AThreadVisitsItsParts) { StepByBoth({SetUpPart, VisitOwnParts, LookAtParts}); }
// Another thread had withdrawn the part, and is not in the child. No hook settles it there.
TEST(ForkWindowOfNamed, EndsInAChildWithoutAPartThatNoThreadHas) {
  if (UnderscoreFork() == nullptr) GTEST_SKIP();
  int verdict = InChild([] {
    hk_lifecycle_start();
    SetUpPart();
    hk_store_relaxed(&hk_part_acquire(named)->part.thread_variable, nullptr);
    pid_t child = UnderscoreFork()();
    if (child != 0) return WaitForChild(child);
    alarm(kChildSeconds);
    hk_part_end_all(named, nullptr, nullptr);
    _exit(kWell);
  });
  EXPECT_EQ(verdict, kWell);
}

TEST_F(ForkWindow, ANamedHeapIsVisited) { StepByBoth({SetUpPart, VisitNamed, LookAtParts}); }

// ---- The same for what the space lock guards.

constexpr size_t kRunBytes = 100 * 1024;

size_t before_bytes;

size_t InUseBytes() { return hk_superslab_usage().in_use_bytes + hk_large_usage().mapped_bytes; }

void SetUpSpace() {
  bool is_zero;
  strangers_heap = hk_heap_take();
  (void)hk_run_alloc(kRunBytes, HK_BLOCK_ALIGNMENT, &is_zero);
  (void)hk_run_free(hk_slab_of(hk_run_alloc(kRunBytes, HK_BLOCK_ALIGNMENT, &is_zero)));
  before_bytes = InUseBytes();
}

// Nothing is lost, for no thread vanished, and the next block belongs to one caller.
Verdict LookAtSpace(bool) {
  hk_lock_wait_for_repair();
  if (InUseBytes() != before_bytes || hk_load_relaxed(&hk_stat_process.value[hk_stat_fork_lost]) != 0)
    return kSpaceIsWrong;
  std::set<void *> taken;
  for (int i = 0; i < 50; i++) {
    bool is_zero;
    void *run = hk_run_alloc(kRunBytes, HK_BLOCK_ALIGNMENT, &is_zero);
    if (run == nullptr || !taken.insert(run).second) return kSpaceIsWrong;
  }
  return kWell;
}

void UseRun() {
  bool is_zero;
  (void)hk_run_free(hk_slab_of(hk_run_alloc(kRunBytes, HK_BLOCK_ALIGNMENT, &is_zero)));
}

void PurgeAll() { (void)hk_purge_down_to(0); }

TEST_F(ForkWindow, ARunComesAndGoes) { Step({SetUpSpace, UseRun, LookAtSpace, 1}); }
TEST_F(ForkWindow, DirtyMemoryIsPurged) { Step({SetUpSpace, PurgeAll, LookAtSpace, 1}); }

// ---- A superslab is made of a record that had another one before.

hk_slab_t *AcquireHalf() { return hk_superslab_acquire(HK_SUPERSLAB_SLABS / 2, 1, hk_from_bottom); }

void SetUpSpareRecord() {
  strangers_heap = hk_heap_take();
  hk_slab_t *head = AcquireHalf();
  hk_superslab_release(head, head->slab_count);
  if (!hk_superslab_dissolve_free(1) || hk_superslab_index_superslab_count() != 0) abort();
}

std::vector<hk_slab_t *> acquired;
void MakeSuperslab() { acquired.push_back(AcquireHalf()); }

// Each slab belongs to one caller, and to the superslab that has its address.
Verdict LookAtSuperslabs(bool) {
  hk_lock_wait_for_repair();
  while (acquired.size() < 7) MakeSuperslab();
  std::set<hk_slab_t *> slabs;
  for (hk_slab_t *head : acquired) {
    if (head == nullptr) return kNoMemory;
    if (hk_slab_of(reinterpret_cast<void *>(hk_slab_start(head))) != head) return kSpaceIsWrong;
    for (unsigned i = 0; i < HK_SUPERSLAB_SLABS / 2; i++) {
      if (!slabs.insert(head + i).second) return kInTwoPlaces;
    }
  }
  return kWell;
}

TEST_F(ForkWindow, ASuperslabIsMade) { Step({SetUpSpareRecord, MakeSuperslab, LookAtSuperslabs, 1}); }

// ---- A superslab moves to a shard that has none, and another thread forks.

hk_superslab_t *moving;
size_t moving_bytes;

Verdict LookAtMoving() {
  hk_superslab_index_repair();
  unsigned shard = hk_superslab_index_shard(moving), other = 1 - shard;
  bool is_there = hk_load_relaxed(&hk_dirty_slabs[shard].in_use_bytes) == moving_bytes &&
                  hk_load_relaxed(&hk_dirty_slabs[other].in_use_bytes) == 0;
  const hk_list_t *bucket = &hk_superslab_index[shard].bucket[moving->longest_row - 1];
  return is_there && hk_superslab_index[shard].is_ready && bucket->next == &moving->link ? kWell : kSpaceIsWrong;
}

void SetUpMoving() {
  look_at_once = LookAtMoving;
  hk_shard_set_each(2);
  moving = hk_superslab_acquire(3, 1, hk_from_bottom)->superslab;
  moving_bytes = hk_superslab_usage().in_use_bytes;
}

void MoveToTheOther() {
  hk_superslab_index_lock_two(0, 1);
  hk_superslab_index_move_locked(moving, 1 - hk_superslab_index_shard(moving));
  hk_superslab_index_unlock(1);
  hk_superslab_index_unlock(0);
}

Verdict LookAtTheEnd(bool) { return LookAtMoving(); }

TEST_F(ForkWindow, ASuperslabMoves) { Step({SetUpMoving, MoveToTheOther, LookAtTheEnd}); }

}  // namespace
