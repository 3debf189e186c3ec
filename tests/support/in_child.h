// Runs part of a test in a child of fork: for state that a process sets up once, and for code that may hang or end the
// process.
#ifndef HK_TESTS_SUPPORT_IN_CHILD_H
#define HK_TESTS_SUPPORT_IN_CHILD_H

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>

namespace hk_test {

// SIGALRM ends a child after this many seconds, many times what a child takes on a busy machine.
constexpr unsigned kChildSeconds = 300;

// Returns the child's exit status, or minus the signal that ended it.
inline int WaitForChild(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Returns the result of `body` in a child (0 to 255), or minus the signal that ended the child.
template <typename Body>
int InChild(Body body) {
  fflush(nullptr); /* or both processes would write the buffered text */
  pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    int result = body();
    fflush(nullptr);
    _exit(result);
  }
  return WaitForChild(child);
}

// A zeroed `T` in memory that parent and children share.
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

// For the body of InChild. When the condition is false, prints where, and ends the child with status 1.
#define HK_CHILD_CHECK(condition)                                                          \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: not so in the child: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                            \
    }                                                                                      \
  } while (0)

#endif  // HK_TESTS_SUPPORT_IN_CHILD_H
