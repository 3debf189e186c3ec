// report/output_file: an option's value that names a file, which process writes it, and the message when it cannot be
// made.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "fake_os.h"
#include "folder.h"
#include "os/os.h"
#include "os/process.h"
#include "policy/option_line.h"

extern "C" {
#include "report/output_file.h"
}

namespace {

bool IsOurs(const char *beginning) { return strncmp(beginning, "ours", 4) == 0; }

class OutputFile : public ::testing::Test {
 protected:
  void SetUp() override { fake_os_reset(); }

  // The file that `value` names in the folder; of `quiet` one nothing is to be said.
  void Name(const std::string &name, bool is_quiet = false) {
    text_ = (is_quiet ? "-" : "") + folder_ / name;
    value_ = text_.c_str();
    file_ = {"HAKMEM_TEST_FILE", &value_, 0, false};
  }
  std::string Text(const std::string &name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Put(const std::string &name, const std::string &text) const { std::ofstream(folder_ / name) << text; }
  // As a message has it: a folder for temporary files may have a long name.
  static std::string Quoted(const std::string &text) {
    return text.size() <= HK_OPTION_QUOTE_MAX ? text : text.substr(0, HK_OPTION_QUOTE_MAX) + "...";
  }
  int Write(const std::string &text, hk_renewed_file_is_ours_t *is_ours = nullptr) const {
    return hk_output_file_write(&file_, is_ours, text.data(), text.size());
  }

  hk_test::Folder folder_;
  std::string text_;
  const char *value_ = nullptr;
  hk_output_file_t file_ = {};
};

TEST_F(OutputFile, IsMadeWhereNoneIs) {
  Name("%p.txt");
  hk_output_file_check(&file_, nullptr);
  EXPECT_TRUE(hk_output_file_is_wanted(&file_));
  EXPECT_EQ(Write("text"), 0);
  EXPECT_EQ(Text(std::to_string(getpid()) + ".txt"), "text");
  EXPECT_STREQ(fake_os_stderr(), "");
}

// The first processes of nested pid namespaces all have the number 1.
TEST_F(OutputFile, AProcessWithTheNumberOfAnotherHasAFileOfItsOwn) {
  fake_os_set_process_id(1);
  Name("%p.txt");
  EXPECT_EQ(Write("first"), 0);
  hk_output_file_check(&file_, nullptr);
  EXPECT_TRUE(hk_output_file_is_wanted(&file_));
  EXPECT_EQ(Write("second"), 0);
  EXPECT_EQ(Text("1.txt"), "first");
  uint64_t now_ms = hk_os_unix_ms();
  EXPECT_EQ(Text("1-" + std::to_string(now_ms) + ".txt"), "second");
  EXPECT_EQ(Write("third"), 0);
  EXPECT_EQ(Text("1-" + std::to_string(now_ms + 1) + ".txt"), "third") << "the clock stands still";
  EXPECT_STREQ(fake_os_stderr(), "");
}

TEST_F(OutputFile, WhatIsOursIsReplaced) {
  Name("file");
  Put("file", "ours: old");
  hk_output_file_check(&file_, IsOurs);
  EXPECT_TRUE(hk_output_file_is_wanted(&file_));
  EXPECT_EQ(Write("ours: new", IsOurs), 0);
  EXPECT_EQ(Text("file"), "ours: new");
}

TEST_F(OutputFile, AnObstacleIsSaidOnceAndForAll) {
  Put("file", "somebody else's");
  for (hk_renewed_file_is_ours_t *is_ours : {static_cast<hk_renewed_file_is_ours_t *>(nullptr), IsOurs}) {
    fake_os_reset();
    Name("file");
    hk_output_file_check(&file_, is_ours);
    hk_output_file_check(&file_, is_ours);
    EXPECT_FALSE(hk_output_file_is_wanted(&file_));
    EXPECT_EQ(fake_os_stderr(), "hakmem: warning: HAKMEM_TEST_FILE=" + Quoted(text_) +
                                    " cannot be written: it exists already, and %p in the path gives each process a "
                                    "file of its own (see: hakmem help options)\n");
  }
}

TEST_F(OutputFile, AQuietOneFailsQuietly) {
  Name("no/folder", true);
  EXPECT_EQ(hk_output_file_pattern(&file_), folder_ / "no/folder");
  hk_output_file_check(&file_, nullptr);
  EXPECT_FALSE(hk_output_file_is_wanted(&file_));
  hk_output_file_complain(&file_, ENOSPC);
  EXPECT_STREQ(fake_os_stderr(), "");
}

TEST_F(OutputFile, WithoutAPathNoneIsNamed) {
  for (const char *value : {"", "-"}) {
    file_ = {"HAKMEM_TEST_FILE", &value, 0, false};
    hk_output_file_check(&file_, nullptr);
    EXPECT_FALSE(hk_output_file_is_wanted(&file_));
    EXPECT_EQ(file_.owner, 0u);
  }
  EXPECT_STREQ(fake_os_stderr(), "");
}

TEST_F(OutputFile, AChildHasOneWhereItHasAName) {
  for (const char *name : {"file", "%p"}) {
    Name(name);
    EXPECT_TRUE(hk_output_file_is_own(&file_)) << "no process has it yet";
    file_.owner = hk_process_mark();
    EXPECT_TRUE(hk_output_file_is_own(&file_));
    file_.owner++;
    EXPECT_EQ(hk_output_file_is_own(&file_), *name == '%');
  }
}

}  // namespace
