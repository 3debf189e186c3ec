// os/os_stderr and os/os_linux: text on stderr, and the end of the process, on the real system.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "folder.h"
#include "in_child.h"
#include "unit/os_linux_driver.h"

using namespace hk_test;

namespace {

using std::chrono::milliseconds;

// All that can be read from a pipe whose other end is closed.
std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(file, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  return text;
}

TEST_F(OsLinux, WritesAllOfALongTextInOnePiece) {
  std::string text(300000, 'x'); /* more than a pipe holds */
  text += "end";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string read_text;
  std::thread reader([&] { read_text = ReadAll(ends[0]); });
  int stderr_copy = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  errno = kErrno;
  hk_os_write_stderr(text.data(), text.size());
  hk_os_write_stderr("", 0);
  int errno_after = errno;
  dup2(stderr_copy, STDERR_FILENO);
  close(stderr_copy);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(read_text, text);
  EXPECT_EQ(errno_after, kErrno);
}

TEST_F(OsLinux, SignalsDoNotTearAText) {
  std::string text;
  for (int i = 0; text.size() < 2000000; i++) text += std::to_string(i) + ' ';
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string read_text;
  std::thread reader([&] {
    /* Slow enough that the pipe is full when signals come, which then end a write half-way. */
    for (int i = 0; i < 20; i++) {
      char buffer[4096];
      std::this_thread::sleep_for(milliseconds(5));
      ssize_t count = read(ends[0], buffer, sizeof(buffer));
      if (count > 0) read_text.append(buffer, static_cast<size_t>(count));
    }
    read_text += ReadAll(ends[0]);
  });
  EXPECT_EQ(InChild([&] {
              struct sigaction action = {};
              action.sa_handler = [](int) {};
              sigaction(SIGPROF, &action, nullptr);
              timer_t timer;
              sigevent event = {};
              event.sigev_notify = SIGEV_SIGNAL;
              event.sigev_signo = SIGPROF;
              timer_create(CLOCK_MONOTONIC, &event, &timer);
              itimerspec every_ms = {{0, 1000000}, {0, 1000000}};
              timer_settime(timer, 0, &every_ms, nullptr);
              dup2(ends[1], STDERR_FILENO);
              hk_os_write_stderr(text.data(), text.size());
              return 0;
            }),
            0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(read_text == text) << read_text.size() << " bytes of " << text.size();
}

TEST_F(OsLinux, WritingToAClosedStderrIsNoError) {
  EXPECT_EQ(InChild([] {
              close(STDERR_FILENO);
              errno = kErrno;
              hk_os_write_stderr("lost\n", 5);
              return errno == kErrno ? 0 : 1;
            }),
            0);
}

// What a child writes whose stderr is a pipe when hk_os_keep_stderr is called. `body` is given another file, which must
// stay empty.
template <typename Body>
std::string WrittenWhenKept(Body body) {
  const Folder folder;
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(InChild([&] {
              int file = open((folder / "other").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
              HK_CHILD_CHECK(file >= 0);
              dup2(ends[1], STDERR_FILENO);
              close(ends[1]);
              errno = kErrno;
              hk_os_keep_stderr();
              int result = body(file);
              HK_CHILD_CHECK(lseek(file, 0, SEEK_END) == 0);
              return result;
            }),
            0);
  close(ends[1]);
  std::string text = ReadAll(ends[0]);
  close(ends[0]);
  return text;
}

TEST_F(OsLinux, KeptStderrOutlivesItsDescriptor) {
  EXPECT_EQ(WrittenWhenKept([](int file) {
              hk_os_write_stderr("one ", 4);
              dup2(file, STDERR_FILENO); /* what a program does that closes all it knows and opens its own file */
              hk_os_write_stderr("two", 3);
              return errno == kErrno ? 0 : 1;
            }),
            "one two");
}

TEST_F(OsLinux, KeptStderrIsNeverAnotherFile) {
  EXPECT_EQ(WrittenWhenKept([](int file) {
              /* Every other descriptor becomes the program's file, our own among them. */
              for (int other = 3; other < 1024; other++) {
                if (other != file && other != STDERR_FILENO) dup2(file, other);
              }
              hk_os_write_stderr("by its number", 13);
              dup2(file, STDERR_FILENO);
              hk_os_write_stderr("lost", 4);
              return 0;
            }),
            "by its number");
}

TEST_F(OsLinux, AClosedStderrIsNotKept) {
  EXPECT_EQ(InChild([] {
              close(STDERR_FILENO);
              errno = kErrno;
              hk_os_keep_stderr();
              hk_os_write_stderr("lost", 4);
              return errno == kErrno ? 0 : 1;
            }),
            0);
}

// What a child writes into a file that it has opened in the place of stderr. `start` comes before.
template <typename Start>
std::string WrittenInThePlaceOfStderr(Start start) {
  const Folder folder;
  const std::string path = folder / "own";
  EXPECT_EQ(InChild([&] {
              int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
              HK_CHILD_CHECK(file > STDERR_FILENO);
              errno = kErrno;
              start();
              dup2(file, STDERR_FILENO);
              hk_os_write_stderr("text", 4);
              return errno == kErrno ? 0 : 1;
            }),
            0);
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text = ReadAll(file);
  close(file);
  return text;
}

TEST_F(OsLinux, AFileByTheNumberOfAClosedStderrIsTheProgramsOwn) {
  EXPECT_EQ(WrittenInThePlaceOfStderr([] {
              close(STDERR_FILENO);
              hk_os_note_stderr();
            }),
            "");
  EXPECT_EQ(WrittenInThePlaceOfStderr([] {
              int other = dup(STDERR_FILENO);
              close(STDERR_FILENO);
              hk_os_note_stderr();
              dup2(other, STDERR_FILENO); /* as a library's constructor may open its file */
              hk_os_keep_stderr();
            }),
            "");
}

// As the logs of servers are.
TEST_F(OsLinux, AFileInThePlaceOfAnOpenStderrGetsTheMessages) {
  EXPECT_EQ(WrittenInThePlaceOfStderr(hk_os_note_stderr), "text");
}

using OsLinuxDeathTest = OsLinux;

TEST_F(OsLinuxDeathTest, AbortEndsByASignalWhateverTheProgramDidToIt) {
  EXPECT_EXIT(hk_os_abort(), testing::KilledBySignal(SIGABRT), "^$");
  EXPECT_EXIT(
      {
        signal(SIGABRT, SIG_IGN);
        hk_os_abort();
      },
      testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(
      {
        sigset_t blocked;
        sigfillset(&blocked);
        sigprocmask(SIG_BLOCK, &blocked, nullptr);
        signal(SIGABRT, [](int) {});
        hk_os_abort();
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
