// os/vdso: the kernel's clock is found where there is one, and tells the time; and so for where a thread runs.
#include <elf.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>

extern "C" {
#include "os/vdso.h"
}

namespace {

uint64_t Milliseconds(const timespec &time) {
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
}

TEST(Vdso, TheClockTellsTheTime) {
  hk_vdso_clock_t *clock = hk_vdso_find_clock(getauxval(AT_SYSINFO_EHDR));
  if (clock == nullptr) GTEST_SKIP() << "this kernel offers none";
  timespec before, found, after;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
  EXPECT_EQ(clock(CLOCK_MONOTONIC_COARSE, &found), 0);
  clock_gettime(CLOCK_MONOTONIC_COARSE, &after);
  EXPECT_LE(Milliseconds(before), Milliseconds(found));
  EXPECT_LE(Milliseconds(found), Milliseconds(after));
}

// Pinned to each processor that the process may use, one after the other.
TEST(Vdso, GetcpuTellsTheProcessor) {
  hk_vdso_getcpu_t *getcpu = hk_vdso_find_getcpu(getauxval(AT_SYSINFO_EHDR));
  if (getcpu == nullptr) GTEST_SKIP() << "this kernel offers none";
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (unsigned i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    unsigned cpu = UINT_MAX, node = UINT_MAX, expected_node = UINT_MAX;
    EXPECT_EQ(getcpu(&cpu, &node, nullptr), 0);
    EXPECT_EQ(cpu, i);
    ASSERT_EQ(syscall(SYS_getcpu, nullptr, &expected_node, nullptr), 0);
    EXPECT_EQ(node, expected_node);
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
}

TEST(Vdso, WithoutAnObjectThereIsNone) {
  EXPECT_EQ(hk_vdso_find_clock(0), nullptr);
  EXPECT_EQ(hk_vdso_find_getcpu(0), nullptr);
}

// An object with one loaded segment and a dynamic section that names no tables.
struct Object {
  Elf64_Ehdr header = {};
  Elf64_Phdr segment[2] = {};
  Elf64_Dyn dynamic[1] = {};
};

TEST(Vdso, WhatNamesNoTablesHasNoClock) {
  Object object;
  object.header.e_phoff = offsetof(Object, segment);
  EXPECT_EQ(hk_vdso_find_clock(reinterpret_cast<uintptr_t>(&object)), nullptr) << "no segments";
  object.header.e_phnum = 2;
  object.segment[0].p_type = PT_LOAD;
  EXPECT_EQ(hk_vdso_find_clock(reinterpret_cast<uintptr_t>(&object)), nullptr) << "no dynamic section";
  object.segment[1].p_type = PT_DYNAMIC;
  object.segment[1].p_offset = offsetof(Object, dynamic);
  object.segment[1].p_vaddr = offsetof(Object, dynamic);
  EXPECT_EQ(hk_vdso_find_clock(reinterpret_cast<uintptr_t>(&object)), nullptr) << "no tables";
}

}  // namespace
