// policy/option, option_value, option_line: accepted values, refused values, and the exact lines about them.
#include "policy/option.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "fake_os.h"
#include "in_child.h"
#include "loaded_options.h"
#include "policy/price.h"

using namespace hk_test;

namespace {

// `retain` after HAKMEM_RETAIN was set to this; -1 where it was refused.
int64_t Retain(const char *value) {
  Loaded loaded = Load({(std::string("HAKMEM_RETAIN=") + value).c_str()});
  if (loaded.writes == 0) return static_cast<int64_t>(loaded.option.retain);
  EXPECT_TRUE(IsDefault(loaded.option));
  return -1;
}

int64_t Spare(const char *value) {
  Loaded loaded = Load({(std::string("HAKMEM_SPARE_SLABS=") + value).c_str()});
  if (loaded.writes == 0) return static_cast<int64_t>(loaded.option.spare_slabs);
  EXPECT_TRUE(IsDefault(loaded.option));
  return -1;
}

int64_t Stats(const char *value) {
  Loaded loaded = Load({(std::string("HAKMEM_STATS=") + value).c_str()});
  return loaded.writes == 0 ? static_cast<int64_t>(loaded.option.stats) : -1;
}

// 0 where it was refused.
uint64_t Mode(const char *value) {
  Loaded loaded = Load({(std::string("HAKMEM_MODE=") + value).c_str()});
  if (loaded.writes == 0) return loaded.option.mode;
  EXPECT_TRUE(IsDefault(loaded.option));
  return 0;
}

// The value of a text option; "refused" where it was.
std::string Text(const char *name, const char *hk_option_t::*field, const std::string &value) {
  std::string variable = name + ("=" + value);
  const char *const environment[] = {variable.c_str(), nullptr};
  struct Copy {
    char characters[HK_OPTION_TEXT_BYTES];
  };
  Shared<Copy> text;
  EXPECT_EQ(InChild([&] {
              fake_os_set_environment(environment);
              hk_option_load();
              strcpy(text->characters, fake_os_stderr_writes() == 0 ? hk_option.*field : "refused");
              return 0;
            }),
            0);
  return text->characters;
}

TEST(Option, DefaultsHoldBeforeAndWithoutAnEnvironment) {
  EXPECT_EQ(hk_option.on_misuse, uint64_t{hk_misuse_abort});
  EXPECT_EQ(hk_option.stats, 0u);
  EXPECT_EQ(hk_option.retain, 8 * HK_MIB);
  EXPECT_EQ(hk_option.spare_slabs, 32u);
  EXPECT_EQ(hk_option.mode, HK_PRICE_BALANCED);
  EXPECT_EQ(hk_option.purge_thread, 1u);
  EXPECT_EQ(hk_option.huge_pages, uint64_t{hk_huge_pages_auto});
  EXPECT_EQ(hk_option.learn, uint64_t{hk_learn_on});
  Loaded loaded = Load({});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_EQ(loaded.writes, 0u);
}

TEST(Option, ForeignVariablesAreNotLookedAt) {
  Loaded loaded =
      Load({"PATH=/bin", "HAKMEM", "HAKMEMX=1", "hakmem_stats=1", "XHAKMEM_STATS=1", "", "=", "=HAKMEM_STATS=1"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings, "");
}

TEST(Option, SeveralAtOnce) {
  Loaded loaded = Load({"HAKMEM_STATS=1", "A=b", "HAKMEM_RETAIN=1M", "HAKMEM_ON_MISUSE=warn", "HAKMEM_SPARE_SLABS=0"});
  EXPECT_EQ(loaded.option.stats, 1u);
  EXPECT_EQ(loaded.option.retain, HK_MIB);
  EXPECT_EQ(loaded.option.on_misuse, uint64_t{hk_misuse_warn});
  EXPECT_EQ(loaded.option.spare_slabs, 0u);
  EXPECT_EQ(loaded.writes, 0u);
}

TEST(Option, Sizes) {
  EXPECT_EQ(Retain("0"), 0);
  EXPECT_EQ(Retain("1"), 1);
  EXPECT_EQ(Retain("0000000000000000000000012"), 12);
  EXPECT_EQ(Retain("4096"), 4096);
  EXPECT_EQ(Retain("512b"), 512);
  EXPECT_EQ(Retain("3k"), 3 << 10);
  EXPECT_EQ(Retain("3K"), 3 << 10);
  EXPECT_EQ(Retain("3KB"), 3 << 10);
  EXPECT_EQ(Retain("3KiB"), 3 << 10);
  EXPECT_EQ(Retain("3kib"), 3 << 10);
  EXPECT_EQ(Retain("5M"), 5 << 20);
  EXPECT_EQ(Retain("7G"), int64_t{7} << 30);
  EXPECT_EQ(Retain("1T"), int64_t{1} << 40);
  EXPECT_EQ(Retain("1099511627776"), int64_t{1} << 40);
}

TEST(Option, SizesThatAreRefused) {
  for (const char *value :
       {"",   " ",   " 1",  "1 ",  "-1",   "+1",    "0x10", "1.5M", "M",     "KiB", "b",   "iB",
        "1i", "1iB", "1KK", "1Ki", "1KBB", "1KiBx", "1P",   "1e3",  "1,000", "abc", "1M;", "\xc3\xa9"}) {
    EXPECT_EQ(Retain(value), -1) << "'" << value << "'";
  }
}

TEST(Option, SizesOutOfRangeOrOverflowing) {
  for (const char *value :
       {"1099511627777", "1025G", "2T", "18446744073709551615", "18446744073709551616", "18446744073709551625",
        "99999999999999999999999999", "16777216T", "16777217T", "17179869184G", "18014398509481984K"}) {
    EXPECT_EQ(Retain(value), -1) << value;
  }
}

TEST(Option, Counts) {
  EXPECT_EQ(Spare("0"), 0);
  EXPECT_EQ(Spare("1024"), 1024);
  EXPECT_EQ(Spare("007"), 7);
  for (const char *value :
       {"", "1025", "1K", "1B", "-0", "four", "4 ", "18446744073709551616", "18446744073709551620"}) {
    EXPECT_EQ(Spare(value), -1) << "'" << value << "'";
  }
}

TEST(Option, Bools) {
  for (const char *value : {"1", "on", "ON", "yes", "Yes", "true", "TRUE"}) EXPECT_EQ(Stats(value), 1) << value;
  for (const char *value : {"0", "off", "no", "false", "False"}) EXPECT_EQ(Stats(value), 0) << value;
  for (const char *value : {"", "2", "o", "onn", "y", "t", "00", "1 ", " on"}) EXPECT_EQ(Stats(value), -1) << value;
}

TEST(Option, Choices) {
  EXPECT_EQ(Load({"HAKMEM_ON_MISUSE=abort"}).option.on_misuse, uint64_t{hk_misuse_abort});
  EXPECT_EQ(Load({"HAKMEM_ON_MISUSE=warn"}).option.on_misuse, uint64_t{hk_misuse_warn});
  EXPECT_EQ(Load({"HAKMEM_ON_MISUSE=Ignore"}).option.on_misuse, uint64_t{hk_misuse_ignore});
  for (const char *value : {"HAKMEM_ON_MISUSE=", "HAKMEM_ON_MISUSE=1", "HAKMEM_ON_MISUSE=warning"}) {
    Loaded loaded = Load({value});
    EXPECT_TRUE(IsDefault(loaded.option)) << value;
    EXPECT_EQ(loaded.writes, 1u) << value;
  }
}

TEST(Option, ChoicesOfLearningAndHugePages) {
  EXPECT_EQ(Load({"HAKMEM_LEARN=on"}).option.learn, uint64_t{hk_learn_on});
  EXPECT_EQ(Load({"HAKMEM_LEARN=OFF"}).option.learn, uint64_t{hk_learn_off});
  EXPECT_EQ(Load({"HAKMEM_LEARN=frozen"}).option.learn, uint64_t{hk_learn_frozen});
  EXPECT_EQ(Load({"HAKMEM_HUGE_PAGES=auto"}).option.huge_pages, uint64_t{hk_huge_pages_auto});
  EXPECT_EQ(Load({"HAKMEM_HUGE_PAGES=never"}).option.huge_pages, uint64_t{hk_huge_pages_never});
  EXPECT_EQ(Load({"HAKMEM_HUGE_PAGES=Always"}).option.huge_pages, uint64_t{hk_huge_pages_always});
  EXPECT_EQ(Load({"HAKMEM_PURGE_THREAD=0"}).option.purge_thread, 0u);
}

TEST(Option, ChoicesWithOnAndOffTakeASwitchsWords) {
  for (const char *value : {"HAKMEM_LEAKS=1", "HAKMEM_LEAKS=yes", "HAKMEM_LEAKS=True"}) {
    EXPECT_EQ(Load({value}).option.leaks, uint64_t{hk_leaks_on}) << value;
    EXPECT_EQ(Load({value}).writes, 0u) << value;
  }
  for (const char *value : {"HAKMEM_LEARN=0", "HAKMEM_LEARN=no", "HAKMEM_LEARN=FALSE"}) {
    EXPECT_EQ(Load({value}).option.learn, uint64_t{hk_learn_off}) << value;
  }
  EXPECT_EQ(Load({"HAKMEM_LEAKS=0"}).writes, 0u);
  EXPECT_EQ(Load({"HAKMEM_LEARN=1"}).writes, 0u);
  for (const char *value : {"HAKMEM_LEAKS=2", "HAKMEM_PURGE=1", "HAKMEM_HUGE_PAGES=0"}) {
    EXPECT_EQ(Load({value}).writes, 1u) << value;
  }
}

TEST(Option, Prices) {
  EXPECT_EQ(Mode("fast"), HK_PRICE_FAST);
  EXPECT_EQ(Mode("balanced"), HK_PRICE_BALANCED);
  EXPECT_EQ(Mode("Lean"), HK_PRICE_LEAN);
  EXPECT_EQ(Mode("1234"), 1234u);
  EXPECT_EQ(Mode("100"), HK_PRICE_MIN);
  EXPECT_EQ(Mode("25000000"), HK_PRICE_MAX);
  for (const char *value : {"", "99", "0", "25000001", "18446744073709551716", "1K", "1e5", "-100", "100 ", "lea",
                            "leaner", "fast balanced"}) {
    EXPECT_EQ(Mode(value), 0u) << "'" << value << "'";
  }
}

TEST(Option, Texts) {
  const std::string longest(HK_OPTION_TEXT_BYTES - 1, 'x');
  const struct {
    const char *variable;
    const char *hk_option_t::*field;
  } texts[] = {{"HAKMEM_STATS_FILE", &hk_option_t::stats_file},
               {"HAKMEM_LEARN_FILE", &hk_option_t::learn_file},
               {"HAKMEM_TRACE", &hk_option_t::trace}};
  for (const auto &text : texts) {
    SCOPED_TRACE(text.variable);
    EXPECT_STREQ(hk_option.*text.field, "");
    EXPECT_EQ(Text(text.variable, text.field, "/tmp/a b-%p"), "/tmp/a b-%p");
    EXPECT_EQ(Text(text.variable, text.field, ""), "");
    EXPECT_EQ(Text(text.variable, text.field, longest), longest);
    EXPECT_EQ(Text(text.variable, text.field, longest + "x"), "refused");
  }
}

TEST(Option, ATextOutlivesTheEnvironment) {
  EXPECT_EQ(InChild([] {
              char variable[] = "HAKMEM_STATS_FILE=/tmp/file";
              const char *const environment[] = {variable, nullptr};
              fake_os_set_environment(environment);
              hk_option_load();
              memset(variable, 'x', sizeof(variable) - 1);
              HK_CHILD_CHECK(strcmp(hk_option.stats_file, "/tmp/file") == 0);
              return 0;
            }),
            0);
}

TEST(Option, WarningOfAText) {
  std::string value(HK_OPTION_TEXT_BYTES, 'x');
  EXPECT_EQ(std::string(Load({("HAKMEM_STATS_FILE=" + value).c_str()}).warnings),
            "hakmem: warning: HAKMEM_STATS_FILE=" + value.substr(0, 64) +
                "... is not accepted: expected a path of less than 4096 characters; keeping the default none "
                "(see: hakmem help options)\n");
}

TEST(Option, WarningOfAValueThatIsOfNoUse) {
  EXPECT_EQ(InChild([] {
              hk_option_warn("HAKMEM_STATS_FILE", "/a\nb", "cannot be written", "permission denied");
              HK_CHILD_CHECK(strcmp(fake_os_stderr(),
                                    "hakmem: warning: HAKMEM_STATS_FILE=/a?b cannot be written: permission denied "
                                    "(see: hakmem help options)\n") == 0);
              return 0;
            }),
            0);
}

TEST(Option, WarningOfANumberThatIsNotUsed) {
  EXPECT_EQ(InChild([] {
              hk_option_warn_unused("HAKMEM_GUARD", 1000000000, "the system refuses the addresses");
              HK_CHILD_CHECK(strcmp(fake_os_stderr(),
                                    "hakmem: warning: HAKMEM_GUARD=1000000000 is not used: the system refuses the "
                                    "addresses (see: hakmem help options)\n") == 0);
              return 0;
            }),
            0);
}

TEST(Option, WarningOfASize) {
  Loaded loaded = Load({"HAKMEM_RETAIN=abc"});
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_RETAIN=abc is not accepted: expected bytes, with K, M, G or T, from 0 to 1T; "
               "keeping the default 8M (see: hakmem help options)\n");
  EXPECT_EQ(loaded.writes, 1u);
}

TEST(Option, WarningOfACount) {
  EXPECT_STREQ(Load({"HAKMEM_SPARE_SLABS=1025"}).warnings,
               "hakmem: warning: HAKMEM_SPARE_SLABS=1025 is not accepted: expected a whole number from 0 to 1024; "
               "keeping the default 32 (see: hakmem help options)\n");
}

TEST(Option, WarningOfABool) {
  EXPECT_STREQ(Load({"HAKMEM_STATS="}).warnings,
               "hakmem: warning: HAKMEM_STATS= is not accepted: expected 0, 1, off, on, no, yes, false or true; "
               "keeping the default 0 (see: hakmem help options)\n");
}

TEST(Option, WarningOfAChoice) {
  EXPECT_STREQ(Load({"HAKMEM_ON_MISUSE=explode"}).warnings,
               "hakmem: warning: HAKMEM_ON_MISUSE=explode is not accepted: expected abort, warn or ignore; "
               "keeping the default abort (see: hakmem help options)\n");
}

TEST(Option, WarningsOfTwoChoicesAndASwitch) {
  EXPECT_STREQ(Load({"HAKMEM_LEARN=2", "HAKMEM_HUGE_PAGES=2M", "HAKMEM_PURGE_THREAD=auto"}).warnings,
               "hakmem: warning: HAKMEM_LEARN=2 is not accepted: expected on, off or frozen; keeping the default on "
               "(see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_HUGE_PAGES=2M is not accepted: expected auto, never or always; keeping the "
               "default auto (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_PURGE_THREAD=auto is not accepted: expected 0, 1, off, on, no, yes, false or "
               "true; keeping the default 1 (see: hakmem help options)\n");
}

TEST(Option, WarningOfAPrice) {
  EXPECT_STREQ(Load({"HAKMEM_MODE=greedy"}).warnings,
               "hakmem: warning: HAKMEM_MODE=greedy is not accepted: expected fast, balanced, lean or a whole number "
               "from 100 to 25000000; keeping the default balanced (see: hakmem help options)\n");
}

TEST(Option, UnknownNamesGetALineEach) {
  Loaded loaded =
      Load({"HAKMEM_FOO=1", "HAKMEM_STATS=1", "HAKMEM_=", "HAKMEM_stats=1", "HAKMEM_STAT=1", "HAKMEM_STATSX=1"});
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_FOO is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_ is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_stats is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_STAT is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_STATSX is no option (see: hakmem help options)\n");
  EXPECT_EQ(loaded.writes, 5u);
  EXPECT_EQ(loaded.option.stats, 1u);
}

TEST(Option, TheToolsNamesAreReserved) {
  Loaded loaded = Load({"HAKMEM_CLI_RUN=1", "HAKMEM_CLI_=", "HAKMEM_CLIX=1"});
  EXPECT_STREQ(loaded.warnings, "hakmem: warning: HAKMEM_CLIX is no option (see: hakmem help options)\n");
}

TEST(Option, ANameWithoutAValueIsNoVariable) {
  Loaded loaded = Load({"HAKMEM_STATS", "HAKMEM_FOO"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_EQ(loaded.writes, 0u);
}

TEST(Option, TheFirstOfTwoCounts) {
  Loaded loaded = Load({"HAKMEM_SPARE_SLABS=1", "HAKMEM_SPARE_SLABS=2", "HAKMEM_SPARE_SLABS=x"});
  EXPECT_EQ(loaded.option.spare_slabs, 1u);
  EXPECT_EQ(loaded.writes, 0u);
  loaded = Load({"HAKMEM_SPARE_SLABS=x", "HAKMEM_SPARE_SLABS=2"});
  EXPECT_EQ(loaded.option.spare_slabs, 32u);
  EXPECT_EQ(loaded.writes, 1u);
}

TEST(Option, WarningsAreOneLineOfPrintableText) {
  Loaded loaded = Load({"HAKMEM_RETAIN=1\n2\x1b[31m\x7f\xff", "HAKMEM_A\nB=1"});
  EXPECT_STREQ(
      loaded.warnings,
      "hakmem: warning: HAKMEM_RETAIN=1?2?[31m?? is not accepted: expected bytes, with K, M, G or T, from 0 to "
      "1T; keeping the default 8M (see: hakmem help options)\n"
      "hakmem: warning: HAKMEM_A?B is no option (see: hakmem help options)\n");
}

TEST(Option, LongNamesAndValuesAreCut) {
  std::string longest_value(64, '9');
  std::string name = "HAKMEM_" + std::string(100000, 'X');
  Loaded loaded = Load({("HAKMEM_RETAIN=" + longest_value).c_str(), (name + "=1").c_str()});
  EXPECT_EQ(std::string(loaded.warnings),
            "hakmem: warning: HAKMEM_RETAIN=" + longest_value +
                " is not accepted: expected bytes, with K, M, G or T, from 0 to 1T; keeping the default 8M "
                "(see: hakmem help options)\n"
                "hakmem: warning: " +
                name.substr(0, 64) + "... is no option (see: hakmem help options)\n");
  loaded = Load({("HAKMEM_RETAIN=" + longest_value + "9").c_str()});
  EXPECT_NE(strstr(loaded.warnings, ("=" + longest_value + "... is not accepted").c_str()), nullptr);
}

TEST(Option, ASecureProgramIgnoresTheEnvironment) {
  Loaded loaded = Load({"HAKMEM_STATS=1", "HAKMEM_RETAIN=abc", "HAKMEM_FOO=1"}, true);
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings, "");
}

TEST(Option, WaitsForTheEnvironmentAndLoadsOnce) {
  EXPECT_EQ(InChild([] {
              const char *const first[] = {"HAKMEM_SPARE_SLABS=9", "HAKMEM_FOO=1", nullptr};
              const char *const second[] = {"HAKMEM_SPARE_SLABS=10", "HAKMEM_BAR=1", nullptr};
              fake_os_set_environment(nullptr);
              hk_option_load();
              HK_CHILD_CHECK(hk_option.spare_slabs == 32);
              fake_os_set_environment(first);
              hk_option_load();
              HK_CHILD_CHECK(hk_option.spare_slabs == 9);
              fake_os_set_environment(second);
              hk_option_load();
              HK_CHILD_CHECK(hk_option.spare_slabs == 9);
              HK_CHILD_CHECK(fake_os_stderr_writes() == 1);
              return 0;
            }),
            0);
}

}  // namespace
