// os/local_socket: descriptors in a process whose program may take each of their numbers.
#include "os/local_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "fake_os.h"
#include "in_child.h"
#include "refuse_call.h"

namespace {

bool GoesOn() { return true; }
int times_asked;

class LocalSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    alarm(hk_test::kChildSeconds);
    std::string name = "hakmem-test/" + std::to_string(getpid());
    memcpy(socket_.name, name.data(), name.size());
    socket_.length = name.size();
    ASSERT_EQ(hk_local_socket_listen(&socket_), 0);
  }
  void TearDown() override {
    hk_local_socket_end(&socket_, socket_.file);
    alarm(0);
  }

  // A peer that has connected, and the descriptor at our end.
  int Connect(int *ours) const {
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, socket_.name, socket_.length);
    auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket_.length);
    EXPECT_EQ(connect(file, reinterpret_cast<sockaddr *>(&address), bytes), 0);
    *ours = hk_local_socket_accept(&socket_);
    EXPECT_GE(*ours, 100);
    return file;
  }

  hk_local_socket_t socket_ = {.name = {}, .length = 0, .file = -1};
};

TEST_F(LocalSocket, ANameIsTakenOnce) {
  hk_local_socket_t second = socket_;
  second.file = -1;
  EXPECT_EQ(hk_local_socket_listen(&second), EADDRINUSE);
  EXPECT_EQ(second.file, -1);
}

TEST_F(LocalSocket, DescriptorsAreHighAndClosedByExec) {
  EXPECT_GE(socket_.file, 100);
  EXPECT_EQ(fcntl(socket_.file, F_GETFD), FD_CLOEXEC);
  int ours, theirs = Connect(&ours);
  EXPECT_EQ(fcntl(ours, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(hk_local_socket_peer(ours), hk_local_peer_trusted);
  hk_local_socket_end(&socket_, ours);
  char byte;
  EXPECT_EQ(read(theirs, &byte, 1), 0);
  close(theirs);
}

TEST_F(LocalSocket, BytesGoBothWays) {
  int ours, theirs = Connect(&ours);
  char bytes[8];
  EXPECT_EQ(hk_local_socket_read(&socket_, ours, bytes, sizeof bytes), -EAGAIN);
  ASSERT_EQ(write(theirs, "ask", 3), 3);
  EXPECT_EQ(hk_local_socket_read(&socket_, ours, bytes, sizeof bytes), 3);
  EXPECT_TRUE(hk_local_socket_write(&socket_, ours, "answer", 6, 1000, GoesOn));
  EXPECT_EQ(read(theirs, bytes, sizeof bytes), 6);
  close(theirs);
  EXPECT_EQ(hk_local_socket_read(&socket_, ours, bytes, sizeof bytes), 0);
  EXPECT_FALSE(hk_local_socket_write(&socket_, ours, "answer", 6, 1000, GoesOn)) << "and there was no SIGPIPE";
  hk_local_socket_end(&socket_, ours);
}

TEST_F(LocalSocket, NoPeerIsWaitedForWithoutEnd) {
  int ours, theirs = Connect(&ours);
  std::vector<char> much(16 << 20);
  EXPECT_FALSE(hk_local_socket_write(&socket_, ours, much.data(), much.size(), 0, GoesOn));
  close(theirs);
  hk_local_socket_end(&socket_, ours);
}

TEST_F(LocalSocket, AWriterThatWaitsAsksWhetherItMayGoOn) {
  int ours, theirs = Connect(&ours);
  std::vector<char> much(16 << 20);
  times_asked = 0;
  EXPECT_FALSE(
      hk_local_socket_write(&socket_, ours, much.data(), much.size(), 60000, [] { return ++times_asked < 3; }));
  EXPECT_EQ(times_asked, 3);
  close(theirs);
  hk_local_socket_end(&socket_, ours);
}

// What the program has in the place of ours is neither read, written nor closed.
TEST_F(LocalSocket, ANumberMayBelongToTheProgram) {
  int ours, theirs = Connect(&ours), pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(write(pipe_ends[1], "own", 3), 3);
  ASSERT_EQ(dup2(pipe_ends[0], ours), ours);
  char bytes[8];
  EXPECT_FALSE(hk_local_socket_owns(&socket_, ours));
  EXPECT_EQ(hk_local_socket_read(&socket_, ours, bytes, sizeof bytes), -EBADF);
  ASSERT_EQ(dup2(pipe_ends[1], ours), ours);
  EXPECT_FALSE(hk_local_socket_write(&socket_, ours, "answer", 6, 1000, GoesOn));
  hk_local_socket_end(&socket_, ours);
  hk_local_socket_forget(&socket_, ours);
  EXPECT_NE(fcntl(ours, F_GETFD), -1);
  EXPECT_EQ(read(pipe_ends[0], bytes, sizeof bytes), 3);
  for (int file : {ours, theirs, pipe_ends[0], pipe_ends[1]}) close(file);
}

// A socket of the program's own is not ours either, and no connection is taken from its queue.
TEST_F(LocalSocket, NoOtherSocketsGuestIsAccepted) {
  hk_local_socket_t programs = socket_;
  programs.name[programs.length++] = '+';
  ASSERT_EQ(hk_local_socket_listen(&programs), 0);
  int listening = programs.file;
  programs = socket_;
  programs.file = listening;
  EXPECT_EQ(hk_local_socket_accept(&programs), -1);
  close(listening);
}

TEST_F(LocalSocket, NoSocketListensWhereTheSystemDoesNotTellItsOwner) {
  EXPECT_EQ(hk_test::InChild([&] {
              HK_CHILD_CHECK(hk_test::Refuse(SYS_getsockname, EPERM));
              hk_local_socket_t second = socket_;
              second.name[0] = 'x';
              second.file = -1;
              int before = fcntl(socket_.file, F_DUPFD, 100);
              close(before);
              HK_CHILD_CHECK(hk_local_socket_listen(&second) == EPERM && second.file == -1);
              HK_CHILD_CHECK(fcntl(socket_.file, F_DUPFD, 100) == before);
              return 0;
            }),
            0);
}

TEST_F(LocalSocket, TimePassesWhereTheSystemRefusesToWait) {
  EXPECT_EQ(hk_test::InChild([&] {
              HK_CHILD_CHECK(hk_test::Refuse(SYS_ppoll, EPERM));
              int ours, theirs = Connect(&ours);
              HK_CHILD_CHECK(write(theirs, "a", 1) == 1);
              struct pollfd files[] = {{ours, POLLIN, 0}, {-1, POLLIN, 0}};
              hk_local_socket_wait(files, 2, 200);
              HK_CHILD_CHECK(fake_os_waited_ms() > 0 && fake_os_waited_ms() <= 200);
              HK_CHILD_CHECK(files[0].revents == POLLIN && files[1].revents == 0);
              char byte;
              HK_CHILD_CHECK(hk_local_socket_read(&socket_, ours, &byte, 1) == 1);
              HK_CHILD_CHECK(hk_local_socket_read(&socket_, ours, &byte, 1) == -EAGAIN);
              return 0;
            }),
            0);
}

}  // namespace
