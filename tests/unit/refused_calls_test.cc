// The whole core over the fake OS, which refuses each call of os.h: at each occurrence, once and from then on until the
// refusals end. A request may fail with ENOMEM; nothing else may show, and afterwards all works again.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "hakmem/hakmem.h"
#include "in_child.h"
#include "scale.h"
#include "shadow_model.h"
#include "unit/core_parts.h"

extern "C" {
#include "api/purge_thread.h"
}

using hk_test::Scaled;
using hk_test::ShadowModel;
using namespace hk_test;

namespace {

constexpr size_t kSizes[] = {1, 100, 1024, 1025, 5000, 32768, 32769, 100000, HK_MIB, 3 * HK_MIB / 2};
// Enough of a size for a second span, and for lists that spill.
constexpr size_t kBytesOfSize = 80 * HK_KIB;
constexpr size_t kMostOfSize = 100;
constexpr int kErrno = 12345;
constexpr unsigned kPurgeVisits = 12;

// A machine and its options: the core's calls of os.h depend on both.
struct Machine {
  const char *name;
  void (*set_up)();
};

// Refuses calls from `nth` on, or that one alone. `all`: every call, from that step of the course on.
struct Refusal {
  fake_os_call_t call = fake_os_call_count;
  uint64_t nth = 0;
  bool lasts = false;
  bool all = false;
};

// A course's result, in memory that the parent shares.
struct Outcome {
  uint64_t calls[fake_os_call_count];
  uint64_t refused;
  uint64_t steps;
  size_t mapped_bytes;  // once all is freed and given back
  char problem[600];
};

void EndRefusals() {
  for (int call = 0; call < fake_os_call_count; call++) {
    fake_os_fail_nth(static_cast<fake_os_call_t>(call), 0);
    fake_os_fail_all(static_cast<fake_os_call_t>(call), false);
  }
}

// A program's requests, and the check of each answer. One in a process.
class Course {
 public:
  Course(const Refusal &refusal, Outcome *outcome) : refusal_(refusal), outcome_(outcome) { current = this; }

  int Run() {
    fake_os_set_thread_count(1); /* no request starts a purge thread, which would not run */
    if (!refusal_.all && refusal_.nth != 0) {
      (refusal_.lasts ? fake_os_fail_from : fake_os_fail_nth)(refusal_.call, refusal_.nth);
    }
    Work();
    CountRefusals();
    EndRefusals();
    must_succeed_ = true;
    fake_os_advance(3000000000u);
    Work();
    FreeAll();
    (void)hakmem_malloc_trim(0);
    outcome_->mapped_bytes = fake_os_mapped_bytes();
    if (misuses() != 0) Fail("a misuse was reported");
    return outcome_->problem[0] == 0 ? 0 : 1;
  }

 private:
  static uint64_t misuses() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]); }

  void Fail(const char *what) {
    if (outcome_->problem[0] != 0) return;
    snprintf(outcome_->problem, sizeof outcome_->problem, "step %llu%s: %s %s",
             static_cast<unsigned long long>(outcome_->steps), must_succeed_ ? ", after the refusals" : "", what,
             model_.problem().c_str());
  }
  void Expect(bool condition, const char *what) {
    if (!condition) Fail(what);
  }

  void CountRefusals() {
    for (int call = 0; call < fake_os_call_count; call++) {
      outcome_->refused += fake_os_failures(static_cast<fake_os_call_t>(call));
      outcome_->calls[call] = fake_os_calls(static_cast<fake_os_call_t>(call));
    }
  }

  // Between any two requests.
  void Step() {
    if (refusal_.all && !must_succeed_ && ++outcome_->steps == refusal_.nth) {
      for (int call = 0; call < fake_os_call_count; call++) fake_os_fail_all(static_cast<fake_os_call_t>(call), true);
    } else if (!refusal_.all) {
      outcome_->steps++;
    }
    fake_os_advance(300000);
    errno = kErrno;
  }

  bool Has(const void *block) {
    if (block != nullptr) return true;
    Expect(errno == ENOMEM, "a request failed with another error than ENOMEM");
    Expect(!must_succeed_, "a request failed");
    return false;
  }

  void Add(void *block, size_t size, size_t alignment, ShadowModel::Contents contents = ShadowModel::Contents::kAny) {
    if (!Has(block)) return;
    Expect(model_.Add(block, size, hakmem_malloc_usable_size(block), alignment, contents), "a block is wrong:");
  }

  void Take(size_t size, unsigned turn) {
    Step();
    if (turn % 8 == 1) return Add(hakmem_calloc(1, size), size, 16, ShadowModel::Contents::kZero);
    if (turn % 8 == 3) {
      size_t alignment = size_t{32} << turn % 14;
      return Add(hakmem_memalign(alignment, size), size, alignment);
    }
    Add(hakmem_malloc(size), size, 16);
  }

  void Free(size_t index) {
    Step();
    void *block = model_.at(index).start;
    Expect(model_.Remove(index), "a block is wrong when it is freed:");
    hakmem_free(block);
    Expect(errno == kErrno, "free changed errno");
  }

  void Resize(size_t index, size_t size) {
    Step();
    void *block = hakmem_realloc(model_.at(index).start, size);
    if (!Has(block)) {
      Expect(model_.Check(index), "a block that could not be resized is wrong:");
      return;
    }
    Expect(model_.Replace(index, block, size, hakmem_malloc_usable_size(block)), "a block that was resized is wrong:");
  }

  void TakeEachSize() {
    unsigned turn = 0;
    for (size_t size : kSizes) {
      size_t count = kBytesOfSize / size + 1;
      for (size_t i = 0; i < (count < kMostOfSize ? count : kMostOfSize); i++) Take(size, turn++);
    }
  }

  // From each band to each other, and back.
  void ResizeAcrossBands() {
    for (size_t to :
         {size_t{40}, 3 * HK_MIB / 2, size_t{9000}, size_t{200000}, 2 * HK_MIB, size_t{40}, size_t{200000}}) {
      for (size_t place = 0; place < 2; place++) {
        if (model_.count() > 0) Resize((to + place * 37) % model_.count(), to);
      }
    }
  }

  void FreeOneOf(size_t of) {
    for (size_t index = 0; index < model_.count(); index += of) Free(index);
  }
  void FreeAll() {
    while (model_.count() > 0) Free(model_.count() - 1);
  }

  // It frees what this thread has made, and leaves blocks that this thread frees when it has ended.
  void UseThread() {
    std::vector<void *> made, left;
    for (size_t i = 0; i < 200; i++) made.push_back(hakmem_malloc(1 + i * 31));
    for (void *block : made) (void)Has(block);
    bool must_succeed = must_succeed_;
    bool is_right = true;
    std::thread([&] {
      for (void *block : made) hakmem_free(block);
      for (size_t i = 0; i < 120; i++) {
        errno = kErrno;
        void *block = hakmem_malloc(i % 20 == 0 ? 40000 * (i / 10) : 1 + i * 53);
        is_right = is_right && (block != nullptr || (errno == ENOMEM && !must_succeed));
        left.push_back(block);
      }
    }).join();
    Expect(is_right, "a request of another thread failed");
    for (void *block : left) {
      Step();
      hakmem_free(block);
    }
  }

  // The purge thread's function, run here: while it would sleep, time passes and the program does something.
  void RunPurgeThread() {
    visits_ = 0;
    fake_os_set_thread_count(3);
    hk_store_relaxed(&hk_purge_wakeup_is_thread_due, true);
    uint64_t before = fake_os_calls(fake_os_thread_start), refused = fake_os_failures(fake_os_thread_start);
    hk_purge_thread_consider();
    bool is_started = fake_os_calls(fake_os_thread_start) > before && fake_os_failures(fake_os_thread_start) == refused;
    Expect(is_started || !must_succeed_, "there is no purge thread");
    if (!is_started) fake_os_set_thread_count(1);
    if (!is_started) return;
    fake_os_set_wait_hook([] { current->PassSleep(); });
    fake_os_thread()();
  }

  void PassSleep() {
    fake_os_advance(150000000);
    if (++visits_ == kPurgeVisits) fake_os_set_thread_count(1);
    if (visits_ % 3 == 0) FreeOneOf(5);
    if (visits_ % 4 == 1) Take(kSizes[visits_ % std::size(kSizes)], visits_);
  }

  void Work() {
    TakeEachSize();
    FreeOneOf(3);
    ResizeAcrossBands();
    UseThread();
    (void)hakmem_malloc_trim(0);
    bool is_profiled = hakmem_profile_start(1500);
    Expect(is_profiled || !must_succeed_, "the profile did not start");
    TakeEachSize();
    FreeOneOf(2);
    UseThread();
    if (is_profiled) Expect(hakmem_profile_stop(), "the profile did not stop");
    RunPurgeThread();
    Expect(model_.CheckAll(), "a block is wrong:");
    FreeOneOf(2);
    (void)hakmem_collect();
  }

  inline static Course *current;
  Refusal refusal_;
  Outcome *outcome_;
  ShadowModel model_;
  bool must_succeed_ = false;
  unsigned visits_ = 0;
};

// The same on one machine, again and again.
class Trials {
 public:
  explicit Trials(Machine machine) : machine_(machine) {}

  void Run() {
    ASSERT_EQ(RunOne({}), "") << machine_.name;
    Outcome whole = *outcome_;
    for (int call = 0; call < fake_os_call_count; call++) {
      for (bool lasts : {false, true}) {
        TryEach({static_cast<fake_os_call_t>(call), 0, lasts, false}, whole.calls[call]);
      }
    }
    TryEach({fake_os_call_count, 0, true, true}, whole.steps);
    printf("%s: %zu refusals tried, %zu calls refused\n", machine_.name, tried_, refused_);
    testing::Test::RecordProperty("refusals", static_cast<int>(tried_));
  }

 private:
  void TryEach(Refusal refusal, uint64_t count) {
    uint64_t most = Scaled(12, 1), stride = count > most ? (count + most - 1) / most : 1;
    for (refusal.nth = 1; refusal.nth <= count; refusal.nth += stride) {
      EXPECT_EQ(RunOne(refusal), "") << machine_.name << ": call " << refusal.call << ", the " << refusal.nth
                                     << "th of " << count << (refusal.lasts ? " and all after it" : "");
      if (testing::Test::HasFailure() && ++failures_ == 20) return;
      tried_++;
      refused_ += outcome_->refused;
    }
  }

  // Returns the fault; an empty text when all is well.
  std::string RunOne(const Refusal &refusal) {
    *outcome_ = {};
    int result = InChild([&] {
      machine_.set_up();
      return Course(refusal, &*outcome_).Run();
    });
    if (result == 0) return "";
    return "result " + std::to_string(result) + ": " + outcome_->problem;
  }

  Machine machine_;
  Shared<Outcome> outcome_;
  size_t tried_ = 0, refused_ = 0;
  unsigned failures_ = 0;
};

void SetUpDefault() { fake_os_set_memory_limit(0, 0, 0); }
void SetUpHuge() {
  fake_os_set_huge(hk_os_huge_on_request);
  hk_option.huge_pages = hk_huge_pages_always;
}
void SetUpLazy() {
  hk_option.purge = hk_purge_free;
  hk_option.mode = HK_PRICE_LEAN;
}
void SetUpTight() {
  hk_option.retain = 0;
  hk_option.spare_slabs = 0;
  fake_os_set_memory_limit(64 * HK_MIB, 60 * HK_MIB, 0);
}

TEST(RefusedCalls, OnAMachineAsMostAre) { Trials({"default", SetUpDefault}).Run(); }
TEST(RefusedCalls, WithHugePages) { Trials({"huge", SetUpHuge}).Run(); }
TEST(RefusedCalls, WhereMemoryIsGivenBackLazily) { Trials({"lazy", SetUpLazy}).Run(); }
TEST(RefusedCalls, NearALimitOnMemory) { Trials({"tight", SetUpTight}).Run(); }

}  // namespace
