/* tests/api/statistics_test.cc - mallinfo, mallinfo2, malloc_info, malloc_stats, mallopt. */
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/malloc_report.h"
#include "support/process_memory.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

/* As in glibc, what has a mapping of its own is counted apart. */
size_t InUse() {
  struct mallinfo2 info = hakmem_mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Mallinfo, InUseFollowsAllocationsOfEveryBand) {
  for (size_t size : {size_t{64}, kTinyMax, size_t{5000}, kMidMax, size_t{200000}, kRunMax, 3 * kMiB}) {
    hakmem_collect();
    size_t before = InUse();
    std::vector<void *> blocks;
    size_t count = 32 * kMiB / size, bytes = 0;
    for (size_t i = 0; i < count; i++) {
      blocks.push_back(hakmem_malloc(size));
      bytes += hakmem_malloc_usable_size(blocks.back());
    }
    size_t full = InUse();
    EXPECT_GE(full, before + bytes - bytes / 16) << size;
    EXPECT_LE(full, before + bytes + bytes / 4 + 4 * kMiB) << size;
    for (void *block : blocks) hakmem_free(block);
    hakmem_collect();
    EXPECT_LE(InUse(), before + 4 * kMiB) << size;
  }
}

TEST(Mallinfo, FieldsAgree) {
  std::vector<void *> blocks;
  for (size_t size = 1; size < 4 * kMiB; size += size / 2 + 1) blocks.push_back(hakmem_malloc(size));
  struct mallinfo2 info = hakmem_mallinfo2();
  size_t address_space = ReadProcessMemory().virtual_bytes;
  EXPECT_LE(info.arena, address_space);
  EXPECT_LE(info.hblkhd, address_space);
  EXPECT_LE(info.uordblks, address_space);
  EXPECT_LE(info.fordblks, address_space);
  EXPECT_LE(info.keepcost, info.arena + info.hblkhd);
  EXPECT_LE(info.uordblks, info.arena + info.hblkhd) << "bytes in use are part of the mapped ones";
  EXPECT_GT(info.uordblks, 0u);
  EXPECT_GE(info.hblks, 1u) << "blocks above 1 MiB are mappings of their own";
  EXPECT_GE(info.hblkhd, 2 * kMiB);
  for (void *block : blocks) hakmem_free(block);
}

TEST(Mallinfo, TheOldFormSaturates) {
  struct mallinfo2 wide = hakmem_mallinfo2();
  struct mallinfo narrow = hakmem_mallinfo();
  auto saturated = [](size_t value) { return value > INT_MAX ? INT_MAX : static_cast<int>(value); };
  EXPECT_EQ(narrow.arena, saturated(wide.arena));
  EXPECT_EQ(narrow.uordblks, saturated(wide.uordblks));
  EXPECT_EQ(narrow.fordblks, saturated(wide.fordblks));
  EXPECT_EQ(narrow.hblks, saturated(wide.hblks));
  EXPECT_EQ(narrow.hblkhd, saturated(wide.hblkhd));
  if (HAKMEM_TEST_SANITIZER) return;
  void *huge = hakmem_malloc(5 * kGiB); /* address space only: it is not touched */
  if (huge == nullptr) GTEST_SKIP() << "no 5 GiB of addresses here";
  narrow = hakmem_mallinfo();
  wide = hakmem_mallinfo2();
  EXPECT_GE(wide.hblkhd + wide.uordblks, 5 * kGiB);
  for (int field : {narrow.arena, narrow.ordblks, narrow.smblks, narrow.hblks, narrow.hblkhd, narrow.usmblks,
                    narrow.fsmblks, narrow.uordblks, narrow.fordblks, narrow.keepcost}) {
    EXPECT_GE(field, 0);
  }
  EXPECT_EQ(narrow.hblkhd, INT_MAX);
  hakmem_free(huge);
}

/* ---- Enough of an XML parser to say that a document is well-formed. */

class XmlReader {
 public:
  explicit XmlReader(std::string text) : text_(std::move(text)) {}

  /* Empty when the text is one element, properly nested, attributes quoted and unique, nothing after it. */
  std::string Problem() {
    SkipSpace();
    if (text_.compare(at_, 5, "<?xml") == 0) {
      size_t end = text_.find("?>", at_);
      if (end == std::string::npos) return "unfinished declaration";
      at_ = end + 2;
      SkipSpace();
    }
    std::string problem = Element(0);
    if (!problem.empty()) return problem + " at " + std::to_string(at_);
    SkipSpace();
    return at_ == text_.size() ? "" : "text after the root element";
  }

  const std::string &root() const { return root_; }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
  }

  std::string Name() {
    size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::strchr("_-.:", text_[at_])))
      at_++;
    return text_.substr(start, at_ - start);
  }

  std::string Element(int depth) {
    if (depth > 50) return "too deep";
    if (text_[at_] != '<') return "no element";
    at_++;
    std::string name = Name();
    if (name.empty()) return "no name";
    if (depth == 0) root_ = name;
    std::set<std::string> attributes;
    for (;;) {
      SkipSpace();
      if (text_.compare(at_, 2, "/>") == 0) {
        at_ += 2;
        return "";
      }
      if (text_[at_] == '>') break;
      std::string attribute = Name();
      if (attribute.empty()) return "no attribute name in " + name;
      if (!attributes.insert(attribute).second) return "attribute twice in " + name;
      if (text_[at_] != '=') return "no = in " + name;
      char quote = text_[++at_];
      if (quote != '"' && quote != '\'') return "no quote in " + name;
      size_t end = text_.find(quote, at_ + 1);
      if (end == std::string::npos) return "open quote in " + name;
      if (text_.substr(at_, end - at_).find_first_of("<") != std::string::npos) return "< in attribute of " + name;
      at_ = end + 1;
    }
    at_++;
    for (;;) {
      while (at_ < text_.size() && text_[at_] != '<') {
        if (text_[at_] == '&') return "unescaped & in " + name;
        at_++;
      }
      if (at_ >= text_.size()) return "unclosed " + name;
      if (text_.compare(at_, 2, "</") == 0) {
        at_ += 2;
        if (Name() != name) return "wrong end of " + name;
        if (text_[at_] != '>') return "bad end of " + name;
        at_++;
        return "";
      }
      std::string problem = Element(depth + 1);
      if (!problem.empty()) return problem;
    }
  }

  std::string text_;
  std::string root_;
  size_t at_ = 0;
};

TEST(MallocInfo, IsWellFormedXml) {
  std::vector<void *> blocks;
  for (size_t size = 1; size < 4 * kMiB; size += size / 2 + 1) blocks.push_back(hakmem_malloc(size));
  std::string text = MallocInfoText();
  ASSERT_FALSE(text.empty());
  XmlReader reader(text);
  EXPECT_EQ(reader.Problem(), "") << text;
  EXPECT_EQ(reader.root(), "malloc") << "what glibc's is called";
  for (void *block : blocks) hakmem_free(block);
}

TEST(MallocInfo, CarriesTheCounters) {
  for (const char *name : {"refill", "slab_acquire", "remote_free", "run_alloc", "large_alloc", "misuse"}) {
    EXPECT_TRUE(ReadCounter(name).has_value()) << name;
  }
  size_t before = ReadCounter("large_alloc").value_or(0);
  void *block = hakmem_malloc(5 * kMiB);
  EXPECT_EQ(ReadCounter("large_alloc").value_or(0), before + 1);
  hakmem_free(block);
}

/* Whether the slabs come from the heap or from the system, and wherever they go. */
TEST(MallocInfo, CountsBlocksOfWholeSlabs) {
  auto counters = [] {
    std::vector<size_t> values;
    for (const char *name : {"run_alloc", "run_reuse", "run_free"}) values.push_back(ReadCounter(name).value_or(0));
    return values;
  };
  std::vector<size_t> expected = counters();
  for (size_t size : {40000, 65536, 200000, 1048576}) {
    void *first = hakmem_malloc(size);
    expected[1] = counters()[1]; /* a test before may have left such a one */
    expected[0]++;
    EXPECT_EQ(counters(), expected) << size;
    hakmem_free(first);
    expected[2]++;
    EXPECT_EQ(counters(), expected) << size;
    void *second = hakmem_calloc(1, size);
    EXPECT_EQ(second, first);
    expected[0]++, expected[1]++;
    EXPECT_EQ(counters(), expected) << size;
    void *aligned = hakmem_aligned_alloc(131072, 131072); /* not what a heap keeps, but what it may keep */
    expected[0]++;
    EXPECT_EQ(counters(), expected) << size;
    hakmem_free(aligned);
    std::thread([second] { hakmem_free(second); }).join();
    expected[2] += 2;
    EXPECT_EQ(counters(), expected) << size;
  }
}

TEST(MallocInfo, OptionsMustBeZero) {
  FILE *file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  for (int options : {1, -1, 2, INT_MAX, INT_MIN}) EXPECT_EQ(hakmem_malloc_info(options, file), EINVAL) << options;
  EXPECT_EQ(std::ftell(file), 0) << "nothing may have been written";
  EXPECT_EQ(hakmem_malloc_info(0, file), 0);
  EXPECT_GT(std::ftell(file), 0);
  std::fclose(file);
}

// The stream fails when it writes its buffer, which is full long before the last line.
TEST(MallocInfo, AFailedWriteIsReported) {
  FILE *file = std::fopen("/dev/full", "w");
  ASSERT_NE(file, nullptr);
  char buffer[512];
  ASSERT_EQ(std::setvbuf(file, buffer, _IOFBF, sizeof buffer), 0);
  EXPECT_EQ(hakmem_malloc_info(0, file), EIO);
  std::fclose(file);
}

TEST(MallocStats, WritesToStderrAlone) {
  FILE *file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::fflush(nullptr);
  int saved = dup(STDERR_FILENO);
  ASSERT_GE(saved, 0);
  dup2(fileno(file), STDERR_FILENO);
  hakmem_malloc_stats();
  dup2(saved, STDERR_FILENO);
  close(saved);
  struct stat status;
  ASSERT_EQ(fstat(fileno(file), &status), 0);
  EXPECT_GT(status.st_size, 40);
  std::string text(static_cast<size_t>(status.st_size), '\0');
  ASSERT_EQ(pread(fileno(file), &text[0], text.size(), 0), status.st_size);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text.find('\0'), std::string::npos);
  std::fclose(file);
}

#ifdef __GLIBC__ /* musl's headers name no parameters */
TEST(Mallopt, KnowsGlibcsParameters) {
  for (int parameter : {M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                        M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX}) {
    EXPECT_EQ(hakmem_mallopt(parameter, 1), 1) << parameter;
  }
  EXPECT_EQ(hakmem_mallopt(12345, 1), 0);
  EXPECT_EQ(hakmem_mallopt(-12345, 1), 0);
  EXPECT_EQ(hakmem_mallopt(INT_MIN, 1), 0);
  /* Nothing changes: zero pages stay zero, blocks stay blocks. */
  void *block = hakmem_malloc(100);
  EXPECT_NE(block, nullptr);
  hakmem_free(block);
}
#endif

} /* namespace */
