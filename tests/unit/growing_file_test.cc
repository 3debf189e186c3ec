// os/growing_file and os/kept_file: pieces in their places, and a program that closes what it does not know.
#include "os/growing_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "folder.h"
#include "in_child.h"

namespace {

class GrowingFile : public testing::Test {
 protected:
  static hk_file_piece_t Piece(const std::string &head, const std::string &body) {
    return {head.data(), head.size(), body.data(), body.size()};
  }

  int Open(const std::string &text) {
    hk_file_piece_t piece = Piece(text, "");
    errno = 0;
    int error = hk_growing_file_open(&file_, path_.c_str(), &piece);
    EXPECT_EQ(errno, 0);
    return error;
  }

  int Write(uint64_t at, const std::string &head, const std::string &body = "") {
    hk_file_piece_t piece = Piece(head, body);
    errno = 0;
    int error = hk_growing_file_write(&file_, at, &piece);
    EXPECT_EQ(errno, 0);
    return error;
  }

  std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const hk_test::Folder folder_;
  const std::string path_ = folder_ / "file";
  hk_kept_file_t file_ = {};
};

TEST_F(GrowingFile, PiecesHaveTheirPlaces) {
  ASSERT_EQ(Open("begin "), 0);
  EXPECT_EQ(Read(), "begin ") << "at once";
  EXPECT_EQ(Write(10, "more"), 0);
  EXPECT_EQ(Write(6, "a", "b- "), 0);
  EXPECT_EQ(Write(6, "a", "b- "), 0) << "twice does no harm";
  EXPECT_EQ(Read(), "begin ab- more");
  hk_kept_file_close(&file_);
  EXPECT_EQ(fcntl(file_.file, F_GETFD), -1);
}

TEST_F(GrowingFile, IsFarFromTheProgramsNumbersAndEndsWithExec) {
  ASSERT_EQ(Open("x"), 0);
  EXPECT_GE(file_.file, 100);
  EXPECT_EQ(fcntl(file_.file, F_GETFD), FD_CLOEXEC);
  int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_LT(next, 100) << "the number that it was opened with is free again";
  close(next);
  hk_kept_file_close(&file_);
}

TEST_F(GrowingFile, WhatExistsStays) {
  std::ofstream(path_) << "mine";
  EXPECT_EQ(Open("ours"), EEXIST);
  EXPECT_EQ(Read(), "mine");
}

TEST_F(GrowingFile, AClosedDescriptorIsNotWrittenTo) {
  ASSERT_EQ(Open("begin"), 0);
  std::string other_path = folder_ / "other";
  ASSERT_EQ(close(file_.file), 0);
  EXPECT_EQ(Write(5, "more"), EBADF);
  int other = open(other_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(dup2(other, file_.file), file_.file);
  EXPECT_EQ(Write(5, "more"), EBADF);
  EXPECT_EQ(std::filesystem::file_size(other_path), 0u) << "the number is the program's now";
  hk_kept_file_close(&file_);
  EXPECT_NE(fcntl(file_.file, F_GETFD), -1) << "and is not ours to close";
  close(other);
  close(file_.file);
}

TEST_F(GrowingFile, ALimitIsNoSignalAndCutsNoPieceApart) {
  EXPECT_EQ(hk_test::InChild([&] {
              struct rlimit limit = {9, 9};
              HK_CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
              HK_CHILD_CHECK(Open("12345") == 0);
              HK_CHILD_CHECK(Write(5, "1234", "5") == EFBIG);
              HK_CHILD_CHECK(Write(5, "12", "34") == 0);
              return 0;
            }),
            0);
  EXPECT_EQ(Read(), "123451234");
}

TEST_F(GrowingFile, WithoutADescriptorThereIsNoFile) {
  EXPECT_EQ(hk_test::InChild([&] {
              struct rlimit limit = {50, 50};
              HK_CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
              HK_CHILD_CHECK(Open("12345") == EINVAL);
              HK_CHILD_CHECK(!std::filesystem::exists(path_));
              return 0;
            }),
            0);
}

}  // namespace
