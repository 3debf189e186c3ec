/* tests/preload/call_names.h - the names of system calls, for programs that are told of calls by name. */
#ifndef PRELOAD_CALL_NAMES_H
#define PRELOAD_CALL_NAMES_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const struct {
  const char *name;
  long number;
} call_names[] = {
#define CALL(name) \
  { #name, SYS_##name }
    CALL(accept4),
    CALL(bind),
    CALL(brk),
    CALL(capget),
    CALL(capset),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(clone),
    CALL(clone3),
    CALL(close),
    CALL(connect),
    CALL(exit),
    CALL(exit_group),
    CALL(faccessat),
    CALL(fchmod),
    CALL(fcntl),
    CALL(fstat),
    CALL(fstatfs),
    CALL(ftruncate),
    CALL(futex),
    CALL(getcpu),
    CALL(getdents64),
    CALL(geteuid),
    CALL(getpid),
    CALL(getresgid),
    CALL(getresuid),
    CALL(getrusage),
    CALL(getsockname),
    CALL(getsockopt),
    CALL(gettid),
    CALL(kill),
    CALL(listen),
    CALL(lseek),
    CALL(madvise),
    CALL(mincore),
    CALL(mmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(munmap),
    CALL(nanosleep),
    CALL(newfstatat),
    CALL(openat),
    CALL(ppoll),
    CALL(prctl),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(pwritev),
    CALL(read),
    CALL(recvfrom),
    CALL(renameat2),
    CALL(rseq),
    CALL(rt_sigaction),
    CALL(rt_sigpending),
    CALL(rt_sigprocmask),
    CALL(rt_sigqueueinfo),
    CALL(rt_sigreturn),
    CALL(rt_sigtimedwait),
    CALL(rt_tgsigqueueinfo),
    CALL(sched_getaffinity),
    CALL(sched_setscheduler),
    CALL(sched_yield),
    CALL(sendto),
    CALL(set_robust_list),
    CALL(setgroups),
    CALL(shutdown),
    CALL(sigaltstack),
    CALL(socket),
    CALL(statx),
    CALL(tgkill),
    CALL(unlinkat),
    CALL(write),
#undef CALL
};
enum { call_name_count = sizeof call_names / sizeof *call_names };

/* The number of a call by its name or by its number; -1 for a name that is not in the table. */
static inline long call_number(const char *name) {
  for (size_t i = 0; i < call_name_count; i++) {
    if (strcmp(call_names[i].name, name) == 0) return call_names[i].number;
  }
  return *name >= '0' && *name <= '9' ? atol(name) : -1;
}

/* A name, or the number as text. */
static inline const char *call_name(long number) {
  static char digits[24];
  for (size_t i = 0; i < call_name_count; i++) {
    if (call_names[i].number == number) return call_names[i].name;
  }
  snprintf(digits, sizeof digits, "%ld", number);
  return digits;
}

#endif /* PRELOAD_CALL_NAMES_H */
