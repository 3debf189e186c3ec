// profile/unwind: stacks of this process, as they are and damaged.
#include "unwind/unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "os/copy_out.h"
#include "unwind/frame.h"
#include "unwind/module.h"

namespace {

using Frames = std::vector<uintptr_t>;

constexpr unsigned kMost = 200;

__attribute__((noinline)) Frames Walk(unsigned most = kMost, unsigned skip = 0) {
  Frames frames(most);
  frames.resize(hk_unwind(frames.data(), most, skip));
  return frames;
}

#if !HK_SANITIZED

// What the compiler's own unwinder says, from the same function's caller on.
__attribute__((noinline)) Frames WalkOfCompiler() {
  std::vector<void *> found(kMost);
  found.resize(static_cast<size_t>(backtrace(found.data(), kMost)));
  Frames frames;
  for (void *frame : found) frames.push_back(reinterpret_cast<uintptr_t>(frame));
  return frames;
}

// Without the innermost frames, which are Walk's and where it was called.
Frames Outer(const Frames &frames, size_t skip = 2) {
  return Frames(frames.begin() + static_cast<ptrdiff_t>(std::min(skip, frames.size())), frames.end());
}

// Both walks from the same depth.
__attribute__((noinline)) void ExpectSame() {
  Frames ours = Walk(), theirs = WalkOfCompiler();
  ASSERT_GT(ours.size(), 4u);
  EXPECT_EQ(Outer(ours), Outer(theirs));
}

// Through the C library's qsort, which has no frame pointers, `depth` times.
int sort_depth;
void (*at_bottom)();

int CompareDeeper(const void *, const void *) {
  if (sort_depth == 0) {
    if (at_bottom != nullptr) at_bottom();
    at_bottom = nullptr;
    return 0;
  }
  sort_depth--;
  int pair[2] = {1, 2};
  qsort(pair, 2, sizeof(int), CompareDeeper);
  return 0;
}

void BelowSorts(int depth, void (*body)()) {
  sort_depth = depth;
  at_bottom = body;
  CompareDeeper(nullptr, nullptr);
}

TEST(Unwind, AgreesWithTheCompilersUnwinder) {
  ExpectSame();
  BelowSorts(1, ExpectSame);
  BelowSorts(12, ExpectSame);
  std::thread(ExpectSame).join();
  std::function<void()> wrapped = [] { ExpectSame(); };
  wrapped();
}

TEST(Unwind, AgreesWhereTheKernelDoesNotCopy) {
  EXPECT_EQ(hk_test::RunFresh([] {
              hk_os_copy_out_refuse();
              ExpectSame();
              BelowSorts(3, ExpectSame);
            }),
            0);
}

#endif

__attribute__((noinline)) Frames SamePath() { return Walk(); }

// Without the frame of the test itself: a compiler may make several loops of one.
Frames WithoutTest(Frames frames, ptrdiff_t index = 2) {
  if (frames.size() > static_cast<size_t>(index)) frames.erase(frames.begin() + index);
  return frames;
}

TEST(Unwind, TheSamePathGivesTheSameFrames) {
  std::vector<Frames> walks(3);
  for (Frames &walk : walks) walk = WithoutTest(SamePath());
  EXPECT_EQ(walks[0], walks[1]);
  EXPECT_EQ(walks[1], walks[2]);
}

__attribute__((noinline)) uintptr_t ReturnAddressOf(Frames *frames, unsigned most, unsigned skip) {
  frames->resize(most);
  frames->resize(hk_unwind(frames->data(), most, skip));
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}

TEST(Unwind, SkipsAndStopsWhereItIsTold) {
  Frames all, rest;
  uintptr_t here = ReturnAddressOf(&all, kMost, 0);
  ASSERT_GT(all.size(), 4u);
  EXPECT_EQ(all[1], here);
  here = ReturnAddressOf(&rest, 3, 1);
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[0], here);
  EXPECT_EQ(rest[1], all[2]);
  EXPECT_EQ(hk_unwind(all.data(), 0, 0), 0u);
  EXPECT_EQ(hk_unwind(all.data(), kMost, 100000), 0u);
}

TEST(Unwind, LeavesErrno) {
  errno = 4711;
  (void)Walk();
  EXPECT_EQ(errno, 4711);
}

__attribute__((noinline)) Frames Recurse(int depth) {
  Frames frames = depth == 0 ? Walk() : Recurse(depth - 1);
  __asm__ volatile("" : : "r"(&frames) : "memory");
  return frames;
}

TEST(Unwind, OfADeepRecursionItGivesTheInnermost) {
  Frames frames = Recurse(5000);
  ASSERT_EQ(frames.size(), kMost);
  EXPECT_EQ(std::count(frames.begin(), frames.end(), frames[kMost - 1]), static_cast<ptrdiff_t>(kMost) - 2);
  EXPECT_EQ(frames, Recurse(4000)) << "how deep it is does not matter";
}

// ---- Signals.

#if !HK_SANITIZED  // their handlers stand between

Frames in_handler;
uintptr_t stopped_at;

void Handler(int, siginfo_t *, void *context) {
  in_handler = Walk();
#if defined(__x86_64__)
  stopped_at = static_cast<uintptr_t>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  stopped_at = static_cast<ucontext_t *>(context)->uc_mcontext.pc;
#endif
}

void HandleOn(bool other_stack) {
  struct sigaction action {};
  action.sa_sigaction = Handler;
  action.sa_flags = SA_SIGINFO | (other_stack ? SA_ONSTACK : 0);
  sigaction(SIGUSR1, &action, nullptr);
}

__attribute__((noinline)) uintptr_t Interrupted() {
  raise(SIGUSR1);
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}

void ExpectWalkOutOfHandler(bool other_stack) {
  HandleOn(other_stack);
  in_handler.clear();
  uintptr_t here = Interrupted();
  signal(SIGUSR1, SIG_DFL);
  EXPECT_NE(std::find(in_handler.begin(), in_handler.end(), stopped_at + 1), in_handler.end());
  EXPECT_NE(std::find(in_handler.begin(), in_handler.end(), here), in_handler.end());
}

TEST(Unwind, WalksOutOfASignalHandler) { ExpectWalkOutOfHandler(false); }

TEST(Unwind, WalksOutOfAHandlerOnAStackOfItsOwn) {
  std::vector<char> stack(1 << 16);
  stack_t own{};
  own.ss_sp = stack.data();
  own.ss_size = stack.size();
  sigaltstack(&own, nullptr);
  ExpectWalkOutOfHandler(true);
  own.ss_flags = SS_DISABLE;
  sigaltstack(&own, nullptr);
}

#endif

// ---- Code without tables, as made at run time.

#if defined(__x86_64__)

// Functions that call their argument, in memory that no module has: with a frame pointer, returning at once after the
// call (CPython's trampolines), and with a register saved.
const std::vector<unsigned char> kWithPointer = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
const std::vector<unsigned char> kReturning = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};
const std::vector<unsigned char> kSaving = {0x53, 0x31, 0xdb, 0xff, 0xd7, 0x90, 0x5b, 0xc3};

using CallOther = void (*)(void (*)());
CallOther MakeCode(const std::vector<unsigned char> &code) {
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code.data(), code.size());
  return reinterpret_cast<CallOther>(page);
}

Frames from_below;

__attribute__((noinline)) uintptr_t CallThrough(CallOther code) {
  code([] { from_below = Walk(); });
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}

bool Contains(const Frames &frames, uintptr_t address) {
  return std::find(frames.begin(), frames.end(), address) != frames.end();
}

TEST(Unwind, CrossesCodeWithoutTablesByItsFramePointer) {
  CallOther code = MakeCode(kWithPointer);
  uintptr_t here = CallThrough(code);
  EXPECT_TRUE(Contains(from_below, reinterpret_cast<uintptr_t>(code) + 6));
  EXPECT_TRUE(Contains(from_below, here));
  munmap(reinterpret_cast<void *>(code), 4096);
}

TEST(Unwind, CrossesCodeWithoutTablesThatReturnsAfterTheCall) {
  CallOther code = MakeCode(kReturning);
  uintptr_t here = CallThrough(code);
  EXPECT_TRUE(Contains(from_below, reinterpret_cast<uintptr_t>(code) + 6));
  EXPECT_TRUE(Contains(from_below, here));
  munmap(reinterpret_cast<void *>(code), 4096);
}

TEST(Unwind, EndsOrGoesOnSoundlyWhereNothingSaysHow) {
  CallOther code = MakeCode(kSaving);
  Frames first;
  for (int i = 0; i < 2; i++) {
    (void)CallThrough(code);
    if (first.empty()) first = from_below;
  }
  EXPECT_TRUE(Contains(first, reinterpret_cast<uintptr_t>(code) + 5));
  EXPECT_EQ(WithoutTest(first, 3), WithoutTest(from_below, 3));
  munmap(reinterpret_cast<void *>(code), 4096);
}

#endif

// ---- Damage.

// Random words in the place of a stack, and registers that lead anywhere.
TEST(Unwind, NoDamageMakesItCrashOrGoOnForEver) {
  constexpr size_t kWords = 512;
  // The stack ends where nothing is mapped.
  char *pages = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(pages + 4096, 4096), 0);
  auto *words = reinterpret_cast<uintptr_t *>(pages);
  Frames code = SamePath();
  uint64_t random = 88172645463325252u;
  auto next = [&random] {
    random ^= random << 13;
    random ^= random >> 7;
    return random ^= random << 17;
  };
  uint64_t steps = 0;
  alarm(hk_test::kChildSeconds);
  for (int round = 0; round < 3000; round++) {
    for (size_t i = 0; i < kWords; i++) {
      uint64_t kind = next() % 4;
      words[i] = kind == 0   ? code[next() % code.size()] + next() % 64
                 : kind == 1 ? reinterpret_cast<uintptr_t>(&words[next() % kWords])
                 : kind == 2 ? next()
                             : next() % 4096;
    }
    hk_frame_t frame{};
    frame.pc = code[next() % code.size()] - 1;
    frame.known = (1u << hk_frame_register_count) - 1;
    frame.is_stopped = true;
    for (uintptr_t &value : frame.registers) value = next() % 2 == 0 ? next() : words[next() % kWords];
    frame.registers[hk_frame_sp] = reinterpret_cast<uintptr_t>(&words[next() % kWords]);
    hk_frame_source_t source;
    hk_frame_source_init(&source, frame.registers[hk_frame_sp]);
    for (unsigned i = 0; i < kMost && hk_frame_step(&frame, &source); i++) steps++;
  }
  alarm(0);
  EXPECT_GT(steps, 1000u) << "the damage should leave something to follow";
  munmap(pages, 4096);
}

TEST(Unwind, ARegisterThatLeadsNowhereEndsTheWalk) {
  uintptr_t own[64] = {0};
  hk_frame_t frame{};
  frame.pc = SamePath()[0] - 1;
  frame.known = (1u << hk_frame_register_count) - 1;
  for (uintptr_t address : {uintptr_t{0}, uintptr_t{8}, UINTPTR_MAX - 7, uintptr_t{1} << 47, uintptr_t{4096}}) {
    for (uintptr_t &value : frame.registers) value = address;
    hk_frame_t copy = frame;
    hk_frame_source_t source;
    hk_frame_source_init(&source, address);
    EXPECT_FALSE(hk_frame_step(&copy, &source)) << address;
  }
  (void)own;
}

// ---- Modules.

TEST(Unwind, TheListOfModulesSaysWhatTheDynamicLinkerSays) {
  for (uintptr_t pc : Walk()) {
    hk_module_t linked{}, listed{};
    ASSERT_TRUE(hk_module_find(pc, &linked));
    ASSERT_TRUE(hk_module_find_listed(pc, &listed)) << std::hex << pc;
    EXPECT_EQ(linked.index, listed.index);
  }
  hk_module_t none{};
  EXPECT_FALSE(hk_module_find(reinterpret_cast<uintptr_t>(&none), &none));
  EXPECT_FALSE(hk_module_find_listed(reinterpret_cast<uintptr_t>(&none), &none));
}

TEST(Unwind, WhileAnotherThreadLoadsAndUnloadsModules) {
  std::atomic<bool> done{false};
  std::thread loader([&done] {
    for (int i = 0; i < 200; i++) {
      void *module = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
      void *other = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
      if (other != nullptr) dlclose(other);
      if (module != nullptr) dlclose(module);
    }
    done = true;
  });
  Frames first, last;
  alarm(hk_test::kChildSeconds);
  do {
    last = WithoutTest(SamePath());
    if (first.empty()) first = last;
  } while (last == first && !done);
  alarm(0);
  loader.join();
  EXPECT_EQ(first, last);
}

}  // namespace
