// serve/serve: when the serve thread ends because of its rights, and when the first thread has to start another one.
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "fake_os.h"
#include "folder.h"
#include "fresh_test.h"
#include "hakmem/hakmem.h"
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

// A request that comes to a slow path.
void Request() { hakmem_free(hakmem_malloc(HK_RUN_MAX_BYTES + 1)); }

// A signal to the first thread would end its wait.
HK_FRESH_TEST(Serve, EndsWithinASecondWhenTheFirstThreadHasOtherRightsAndTheNextRequestStartsAnother) {
  Course course(hk_rights_differ);
  Course::Begin();
  Request();
  EXPECT_FALSE(hk_serve_is_wanted);
  ASSERT_TRUE(Course::RunThread());
  EXPECT_GE(now_ms, 5000u);
  EXPECT_LT(now_ms, 6000u);
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
  ASSERT_TRUE(hk_serve_is_wanted);
  std::thread(Request).join();
  EXPECT_TRUE(hk_os_bare_thread_is_claimed()) << "any thread's request, as all may have the new rights";
  EXPECT_FALSE(hk_serve_is_wanted);
  fake_os_set_rights(hk_rights_same);
  change_ms = now_ms + 2000;
  ASSERT_TRUE(Course::RunThread());
  EXPECT_TRUE(std::ifstream(hk_option.stats_file).is_open());
}

// Its heap is taken while it sleeps: the first request after the wait is a slow one.
HK_FRESH_TEST(Serve, AThreadThatSleepsComesToASlowPathWithItsNextRequest) {
  Course course(hk_rights_differ);
  Course::Begin();
  void *block = hakmem_malloc(100);
  ASSERT_NE(hk_thread_own(), HK_EMPTY_HEAP);
  fake_os_set_thread_sleeps([](uint64_t) { return true; });
  ASSERT_TRUE(Course::RunThread());
  hakmem_free(block);
  hakmem_free(hakmem_malloc(100));
  EXPECT_TRUE(hk_os_bare_thread_is_claimed());
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
  EXPECT_FALSE(hk_serve_is_wanted) << "another one would know no more";
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
}

HK_FRESH_TEST(Serve, AsksNothingOfAProgramUnderAFilter) {
  Course course(hk_rights_confined);
  Course::Begin();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_LT(now_ms, 6000u);
  EXPECT_FALSE(hk_serve_is_wanted);
}

HK_FRESH_TEST(Serve, ThatAnotherThreadHasStartedLeavesItToTheFirstOneAtOnce) {
  Course course(hk_rights_unknown, 0);
  std::thread(Course::Begin).join();
  ASSERT_TRUE(Course::RunThread());
  EXPECT_EQ(now_ms, 0u);
  std::thread(Request).join();
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
  Request();
  EXPECT_TRUE(hk_os_bare_thread_is_claimed());
}

// A daemon that takes its rights back and gives them up again, as for each request.
HK_FRESH_TEST(Serve, TheFileIsRenewedAlthoughEachThreadEndsBeforeTheInterval) {
  Course course(hk_rights_differ, 1);
  Course::Begin();
  int threads = 0;
  while (!std::ifstream(hk_option.stats_file).is_open() && threads < 10) {
    ASSERT_TRUE(Course::RunThread());
    Request();
    threads++;
  }
  EXPECT_EQ(threads, 2);
}

}  // namespace
