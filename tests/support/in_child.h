// Runs part of a test in a child of fork: for state that a process sets up once, and for what may hang or end the
// process.
#ifndef HK_TESTS_SUPPORT_IN_CHILD_H
#define HK_TESTS_SUPPORT_IN_CHILD_H

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>

namespace hk_test {

// A hung child is ended by SIGALRM after this many seconds: many times what a child takes on a busy machine.
constexpr unsigned kChildSeconds = 300;

// What became of a child: its exit status, or minus the signal that ended it.
inline int WaitForChild(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The result of `body` in a child (0 to 255), or minus the signal that ended it.
template <typename Body>
int InChild(Body body) {
  fflush(nullptr); /* or what is buffered would be written twice */
  pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    int result = body();
    fflush(nullptr);
    _exit(result);
  }
  return WaitForChild(child);
}

// A zeroed `T` that parent and children share.
template <typename T>
class Shared {
 public:
  Shared() {
    void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    value_ = new (memory) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;
  T *operator->() { return value_; }
  T &operator*() { return *value_; }

 private:
  T *value_;
};

}  // namespace hk_test

// In the body of InChild: reports where it went wrong and ends the child with 1.
#define HK_CHILD_CHECK(condition)                                                          \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: not so in the child: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                            \
    }                                                                                      \
  } while (0)

#endif  // HK_TESTS_SUPPORT_IN_CHILD_H
