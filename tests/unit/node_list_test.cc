// os/node_list: how many memory nodes a file of the kernel's lists.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "folder.h"

extern "C" {
#include "os/node_list.h"
}

namespace {

// The count read from a file with this text.
unsigned CountIn(const std::string &text) {
  const hk_test::Folder folder;
  const std::string path = folder / "online";
  std::ofstream(path) << text;
  return hk_node_list_read(path.c_str());
}

TEST(NodeList, OneNodeIsOneWhateverItsNumber) {
  EXPECT_EQ(CountIn("0\n"), 1u);
  EXPECT_EQ(CountIn("0"), 1u);
  EXPECT_EQ(CountIn("3\n"), 1u);
}

TEST(NodeList, SeveralNodesAreAsManyAsTheHighestNumberSays) {
  EXPECT_EQ(CountIn("0-1\n"), 2u);
  EXPECT_EQ(CountIn("0-7\n"), 8u);
  EXPECT_EQ(CountIn("0,8\n"), 9u);
  EXPECT_EQ(CountIn("0-3,8-11"), 12u);
  EXPECT_EQ(CountIn("1-2\n"), 3u) << "the first node may have no processor";
  EXPECT_EQ(CountIn("0-1023\n"), 1024u);
}

TEST(NodeList, AListMayBeLongerThanOneReading) {
  std::string text = "0";
  for (int i = 2; i < 1024; i += 2) text += "," + std::to_string(i);
  EXPECT_EQ(CountIn(text + "\n"), 1023u);
}

TEST(NodeList, WithoutANumberThereIsNoAnswer) {
  EXPECT_EQ(CountIn(""), 0u);
  EXPECT_EQ(CountIn("\n"), 0u) << "as where no node has a processor";
}

TEST(NodeList, AMissingFileIsNoAnswerAndKeepsErrno) {
  errno = 77;
  EXPECT_EQ(hk_node_list_read("/nowhere/to/be/found"), 0u);
  EXPECT_EQ(errno, 77);
}

TEST(NodeList, AFolderIsNoAnswer) { EXPECT_EQ(hk_node_list_read("/"), 0u); }

// Each reading that left its file open would get a higher number than the one before.
TEST(NodeList, NoFileStaysOpen) {
  int before = dup(STDOUT_FILENO);
  close(before);
  for (int i = 0; i < 10; i++) (void)hk_node_list_read("/proc/self/status");
  int after = dup(STDOUT_FILENO);
  close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
