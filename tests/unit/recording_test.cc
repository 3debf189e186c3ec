// space/recording: all notes arrive in the file, whichever thread writes it; without room, without a file, in children
// of fork.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "folder.h"
#include "fresh_test.h"
#include "level_trace_reader.h"
#include "os/lock.h"
#include "policy/level_trace.h"
#include "scale.h"
#include "unit/core_parts.h"

extern "C" {
#include "space/dirty.h"
#include "space/recording.h"
}

using namespace hk_test;

namespace {

using Points = std::vector<LevelPoint>;

constexpr uint64_t kStartMs = fake_os_start_ns / 1000000;
constexpr uint64_t kPrice = 123;

constexpr size_t kRepairedUnits = 5;

void Repair() { hk_recording_repair(kRepairedUnits * HK_LEVEL_TRACE_UNIT_BYTES); }

// As a process that starts with HAKMEM_TRACE=path and `units` in use.
void Start(const std::string &path, size_t units = 0) {
  static std::string variable;
  static const char *environment[] = {nullptr, nullptr};
  variable = "HAKMEM_TRACE=" + path;
  environment[0] = variable.c_str();
  fake_os_set_environment(environment);
  hk_option_load();
  ASSERT_TRUE(hk_lock_init(Repair));
  hk_recording_start(units * HK_LEVEL_TRACE_UNIT_BYTES, kPrice);
}

bool IsOn() { return hk_load_relaxed(&hk_recording_state.is_on); }

void Note(uint64_t now_ms, size_t units) {
  fake_os_set_now((kStartMs + now_ms) * 1000000);
  hk_lock_acquire(hk_lock_space);
  hk_recording_note_locked(kStartMs + now_ms, units * HK_LEVEL_TRACE_UNIT_BYTES);
  hk_lock_release(hk_lock_space);
}

// As a thread does that changes the units in use.
void NoteAndWrite(uint64_t now_ms, size_t units) {
  Note(now_ms, units);
  if (hk_recording_is_full()) hk_recording_write();
}

long LinesOnStderr() {
  std::string text = fake_os_stderr();
  return std::count(text.begin(), text.end(), '\n');
}

// The descriptor that leads to the file, or -1.
int DescriptorOf(const std::string &path) {
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

HK_FRESH_TEST(Recording, HoldsWhatWasInUse) {
  Folder folder;
  Start(folder / "a", 3);
  NoteAndWrite(10, 7);
  NoteAndWrite(20, 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "a")) << "exec would leave it to another program";
  fake_os_set_now((kStartMs + 500) * 1000000);
  hk_recording_finish();
  EXPECT_FALSE(IsOn());
  LevelFile file = LevelReader::ReadFile(folder / "a");
  EXPECT_EQ(file.points, (Points{{0, 3}, {10, 7}, {20, 2}, {500, 2}}));
  EXPECT_EQ(file.price, kPrice);
  NoteAndWrite(600, 9);
  hk_recording_finish();
  EXPECT_EQ(LevelReader::ReadFile(folder / "a").points.size(), 4u) << "after the end nothing is recorded";
  EXPECT_EQ(LinesOnStderr(), 0);
}

// The program takes one unit, and another one in the same ms.
HK_FRESH_TEST(Recording, HoldsSmallChangesWithinOneMs) {
  Folder folder;
  Start(folder / "a");
  fake_os_set_now((kStartMs + 10) * 1000000);
  for (size_t units : {1, 2}) {
    hk_store_relaxed(&hk_dirty_extents.in_use_bytes, units * HK_LEVEL_TRACE_UNIT_BYTES);
    hk_lock_acquire(hk_lock_space);
    EXPECT_FALSE(hk_dirty_put_off_locked(&hk_dirty_extents, kStartMs + 10));
    (void)hk_dirty_look_locked(&hk_dirty_extents, kStartMs + 10);
    hk_lock_release(hk_lock_space);
  }
  hk_recording_finish();
  EXPECT_EQ(LevelReader::ReadFile(folder / "a").points.back(), (LevelPoint{10, 2}));
}

HK_FRESH_TEST(Recording, WithoutAPathNothingHappens) {
  Start("");
  NoteAndWrite(10, 7);
  NoteAndWrite(5000, 2);
  hk_recording_finish();
  EXPECT_FALSE(IsOn());
  EXPECT_EQ(LinesOnStderr(), 0);
}

HK_FRESH_TEST(Recording, TheThreadThatFillsAChunkWritesIt) {
  Folder folder;
  Start(folder / "a", 3);
  for (uint64_t ms = 1; ms <= 1000; ms += 9) NoteAndWrite(ms, ms);
  NoteAndWrite(1020, 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "a"));
  Points before = LevelReader::ReadFile(folder / "a").points;
  ASSERT_GT(before.size(), 100u);
  EXPECT_EQ(before.back(), (LevelPoint{991, 991})) << "a process killed now has lost only the later points";
  for (uint64_t ms = 2000; ms < 9000; ms += 1000) NoteAndWrite(ms, ms);
  hk_recording_finish();
  Points all = LevelReader::ReadFile(folder / "a").points;
  ASSERT_EQ(all.size(), before.size() + 2 + 7 + 1);
  for (size_t i = 0; i < before.size(); i++) EXPECT_EQ(all[i], before[i]);
  EXPECT_EQ(all.back(), (LevelPoint{8000, 8000}));
}

HK_FRESH_TEST(Recording, WithoutAWriterLessIsNoted) {
  Folder folder;
  Start(folder / "a");
  for (uint64_t ms = 1; ms <= 20000; ms++) Note(ms, ms == 17000 ? 900 : 100 + ms % 50);
  EXPECT_TRUE(hk_recording_is_full());
  hk_recording_finish();
  Points points = LevelReader::ReadFile(folder / "a").points;
  EXPECT_LT(points.size(), 10000u);
  ASSERT_GT(points.size(), 2000u) << "two chunks";
  Points tail(points.end() - 3, points.end());
  EXPECT_EQ(tail, (Points{{17000, 900}, {20000, 100}, {20000, 100}})) << "the highest and the last are known";
}

HK_FRESH_TEST(Recording, AFileThatIsThereIsLeftAlone) {
  Folder folder;
  Start(folder / "b");
  EXPECT_TRUE(IsOn());
  close(creat((folder / "b").c_str(), 0600));
  hk_recording_finish();
  EXPECT_EQ(std::filesystem::file_size(folder / "b"), 0u);
  EXPECT_NE(std::string(fake_os_stderr()).find("is not recorded to the end: it exists already"), std::string::npos);
  EXPECT_EQ(LinesOnStderr(), 1);
}

HK_FRESH_TEST(Recording, WhatCannotBeMadeIsSaidAtTheStart) {
  Folder folder;
  Start(folder / "none/a");
  EXPECT_FALSE(IsOn());
  EXPECT_NE(std::string(fake_os_stderr()).find("cannot be written: its folder does not exist"), std::string::npos);
  NoteAndWrite(2000, 1);
  hk_recording_finish();
  EXPECT_EQ(LinesOnStderr(), 1);
}

HK_FRESH_TEST(Recording, AProgramThatClosesAllStopsTheRecording) {
  Folder folder;
  Start(folder / "a", 3);
  NoteAndWrite(1000, 1);
  NoteAndWrite(1001, 2);
  Points before = LevelReader::ReadFile(folder / "a").points;
  int number = DescriptorOf(folder / "a");
  ASSERT_GE(number, 0);
  int other = open((folder / "other").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(dup2(other, number), number) << "it closes it, and has a file there";
  NoteAndWrite(2000, 3);
  NoteAndWrite(3000, 4);
  NoteAndWrite(4000, 5);
  hk_recording_finish();
  EXPECT_FALSE(IsOn());
  EXPECT_EQ(LinesOnStderr(), 1);
  EXPECT_NE(std::string(fake_os_stderr()).find("is recorded no longer: the program has closed it"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(folder / "other"), 0u);
  EXPECT_NE(fcntl(number, F_GETFD), -1);
  EXPECT_EQ(LevelReader::ReadFile(folder / "a").points, before);
}

HK_FRESH_TEST(Recording, AFullDiskEndsItAfterAWholeChunk) {
  Folder folder;
  Start(folder / "a", 3);
  struct rlimit limit = {100, 100};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  for (uint64_t ms = 1000; IsOn() && ms < 100000; ms += 1000) NoteAndWrite(ms, ms);
  EXPECT_FALSE(IsOn());
  hk_recording_finish();
  EXPECT_GT(LevelReader::ReadFile(folder / "a").points.size(), 1u);
  EXPECT_EQ(LinesOnStderr(), 1);
  EXPECT_EQ(DescriptorOf(folder / "a"), -1);
}

// Records in a child of a process that has noted something, with a path of its own or without.
void ChildRecords(const std::string &path) {
  NoteAndWrite(5000, 40);
  NoteAndWrite(9000, 41);
  hk_recording_finish();
  EXPECT_EQ(DescriptorOf(path), -1) << "the parent's file is not the child's to keep";
}

HK_FRESH_TEST(Recording, AForkWithoutAPathOfItsOwnRecordsNothing) {
  Folder folder;
  Start(folder / "a", 3);
  for (uint64_t ms : {1000, 2000, 3000}) NoteAndWrite(ms, ms);
  EXPECT_EQ(InChild([&] {
              Note(4000, 30);
              EXPECT_FALSE(IsOn());
              ChildRecords(folder / "a");
              EXPECT_EQ(LinesOnStderr(), 0);
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  NoteAndWrite(4000, 4000);
  hk_recording_finish();
  Points points = LevelReader::ReadFile(folder / "a").points;
  EXPECT_EQ(points, (Points{{0, 3}, {1000, 1000}, {2000, 2000}, {3000, 3000}, {4000, 4000}, {4000, 4000}}));
  EXPECT_EQ(LinesOnStderr(), 0);
}

HK_FRESH_TEST(Recording, AForkWithAPathOfItsOwnRecordsFromItsStart) {
  Folder folder;
  Start(folder / "a-%p", 3);
  std::string own = folder / ("a-" + std::to_string(getpid()));
  for (uint64_t ms : {1000, 2000, 3000}) NoteAndWrite(ms, ms);
  EXPECT_EQ(InChild([&] {
              fake_os_set_now((kStartMs + 4000) * 1000000);
              hk_lock_after_fork(true);
              ChildRecords(own);
              Points points = LevelReader::ReadFile(folder / ("a-" + std::to_string(getpid()))).points;
              EXPECT_EQ(points, (Points{{0, kRepairedUnits}, {1000, 40}, {5000, 41}, {5000, 41}}));
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  hk_recording_finish();
  EXPECT_EQ(LevelReader::ReadFile(own).points.size(), 5u);
  EXPECT_EQ(LinesOnStderr(), 0);
}

HK_FRESH_TEST(Recording, ManyThreadsWriteOneFile) {
  Folder folder;
  Start(folder / "a");
  std::atomic<uint64_t> clock{0};
  std::atomic<bool> is_finished{false};
  std::vector<std::thread> threads;
  const uintmax_t end_bytes = 4 * HK_KIB + Scaled(60 * HK_KIB);
  for (size_t id = 0; id < 3; id++) {
    threads.emplace_back([&] {
      while (!is_finished) {
        uint64_t ms = clock += 13;
        NoteAndWrite(ms, 1 + ms % 100);
      }
    });
  }
  std::error_code none; /* there is no file before the first chunk */
  auto written = [&] { return std::filesystem::file_size(folder / "a", none); };
  while (written() == static_cast<uintmax_t>(-1) || written() < end_bytes) std::this_thread::yield();
  hk_recording_finish(); /* the others go on, and write into nothing */
  is_finished = true;
  for (std::thread &thread : threads) thread.join();
  LevelFile file = LevelReader::ReadFile(folder / "a");
  EXPECT_GT(file.chunk_count, 1u);
  for (size_t i = 1; i < file.points.size(); i++) {
    ASSERT_GE(file.points[i].ms, file.points[i - 1].ms);
    ASSERT_LE(file.points[i].units, 100u);
  }
  EXPECT_EQ(LinesOnStderr(), 0);
}

}  // namespace
