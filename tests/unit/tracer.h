// Steps through a child one instruction at a time, by ptrace.
#ifndef HK_TESTS_UNIT_TRACER_H
#define HK_TESTS_UNIT_TRACER_H

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

namespace hk_test {

struct Position {
  uint64_t pc, sp;
  bool operator==(const Position &other) const { return pc == other.pc && sp == other.sp; }
};

inline Position PositionOf(pid_t child) {
  user_regs_struct registers = {};
  iovec view = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &view) != 0) return {};
#if defined(__x86_64__)
  return {registers.rip, registers.rsp};
#else
  return {registers.pc, registers.sp};
#endif
}

// Which signal stopped it then; 0: it has ended. That a child of its own has ended is no news.
inline int Go(pid_t child, int request, int signal) {
  for (int status = 0;; signal = 0) {
    if (ptrace(static_cast<__ptrace_request>(request), child, nullptr, signal) != 0) return 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 0;
    if (WSTOPSIG(status) != SIGCHLD) return WSTOPSIG(status);
  }
}

// Runs the child to where the handler interrupted it. The handler's end is a system call, so the child stops at each of
// those: it would stop a hundred times as often with single steps.
inline bool LeaveHandler(pid_t child, const Position &interrupted) {
  for (int stops = 0; stops < 10000; stops++) {
    if (Go(child, PTRACE_SYSCALL, 0) != SIGTRAP) return false;
    if (PositionOf(child) == interrupted) return true;
  }
  return false;
}

inline bool MayTrace() {
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  bool may_step = Go(child, PTRACE_SINGLESTEP, 0) == SIGTRAP;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return may_step;
}

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_TRACER_H
