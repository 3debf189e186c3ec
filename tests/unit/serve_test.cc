// api/serve: when the serve thread ends because of its rights, and when the first thread has to start another one.
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "fake_os.h"
#include "folder.h"
#include "fresh_test.h"
#include "os/rights.h"
#include "unit/core_parts.h"

extern "C" {
#include "api/instruments.h"
}

using namespace hk_test;

namespace {

uint64_t now_ms;
// When the answer changes, and to what.
uint64_t change_ms;
int later_rights;

void PassTime() {
  now_ms += fake_os_waited_ms() > 0 ? fake_os_waited_ms() : 1;
  fake_os_set_now(fake_os_start_ns + now_ms * 1000000);
  if (now_ms >= change_ms) fake_os_set_rights(later_rights);
}

// A program with HAKMEM_STATS_INTERVAL, whose rights are known until then.
class Course {
 public:
  explicit Course(int rights, uint64_t at_ms = 5000) {
    fake_os_set_wait_hook(PassTime);
    fake_os_have_bare_thread();
    change_ms = at_ms;
    later_rights = rights;
    fake_os_set_rights(at_ms == 0 ? rights : hk_rights_same);
    file_ = folder_ / "stats.json";
    hk_option.stats_interval = 1;
    hk_option.stats_file = file_.c_str();
  }
  static void Begin() { hk_serve_prepare(); }
  static bool RunThread() {
    void (*run)(void) = fake_os_bare_thread();
    if (run != nullptr) run();
    return run != nullptr;
  }

 private:
  Folder folder_;
  std::string file_;
};

HK_FRESH_TEST(Serve, EndsWithinASecondWhenTheFirstThreadHasOtherRightsAndAsksForAnother) {
  Course course(hk_rights_differ);
  Course::Begin();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_GE(now_ms, 5000u);
  EXPECT_LT(now_ms, 6000u);
  EXPECT_EQ(fake_os_signals_to_first_thread(), 1u);
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
}

// A file of the old rights could not be replaced with the new ones.
HK_FRESH_TEST(Serve, WritesNoFileWithRightsOfBefore) {
  Course course(hk_rights_differ, HK_RIGHTS_LOOK_MS + 1);
  Course::Begin();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_FALSE(std::ifstream(hk_option.stats_file).is_open());
}

HK_FRESH_TEST(Serve, EndsWhereNothingTellsOfTheRights) {
  Course course(hk_rights_unknown);
  Course::Begin();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_LT(now_ms, 6000u);
  EXPECT_EQ(fake_os_signals_to_first_thread(), 0u) << "another one would know no more";
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
}

HK_FRESH_TEST(Serve, AsksNothingOfAFirstThreadUnderAFilter) {
  Course course(hk_rights_confined);
  Course::Begin();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_LT(now_ms, 6000u);
  EXPECT_EQ(fake_os_signals_to_first_thread(), 0u);
}

HK_FRESH_TEST(Serve, ThatAnotherThreadHasStartedLeavesItToTheFirstOneAtOnce) {
  Course course(hk_rights_unknown, 0);
  std::thread(Course::Begin).join();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_EQ(now_ms, 0u);
  EXPECT_EQ(fake_os_signals_to_first_thread(), 1u);
}

// Endless requests to the first thread would end its system calls early for ever.
HK_FRESH_TEST(Serve, AFewInARowThatDifferAreEnough) {
  Course course(hk_rights_differ, 1);
  Course::Begin();
  void (*run)(void) = fake_os_bare_thread();
  ASSERT_NE(run, nullptr);
  int threads = 0;
  uint64_t asked;
  do {
    asked = fake_os_signals_to_first_thread();
    run();
    threads++;
    ASSERT_TRUE(hk_os_bare_thread_claim()); /* as the signal's handler */
  } while (fake_os_signals_to_first_thread() > asked && threads < 100);
  EXPECT_EQ(fake_os_signals_to_first_thread(), 3u);
  EXPECT_EQ(threads, 4);
}

}  // namespace
