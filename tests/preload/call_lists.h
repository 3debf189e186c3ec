/* tests/preload/call_lists.h - the system calls that programs' filters permit: lists of kill_filter.c by name. */
#ifndef PRELOAD_CALL_LISTS_H
#define PRELOAD_CALL_LISTS_H

#include <sys/mman.h>
#include <sys/syscall.h>

/* The calls of every malloc, and those by which this program says that it is done. */
static const int malloc_list[] = {SYS_mmap,     SYS_munmap, SYS_mremap, SYS_madvise,
                                  SYS_mprotect, SYS_futex,  SYS_write,  SYS_exit_group};

/* The same, and the calls by which the C library begins and ends threads. */
static const int threads_list[] = {SYS_mmap,   SYS_munmap, SYS_mremap,         SYS_madvise,         SYS_mprotect,
                                   SYS_futex,  SYS_write,  SYS_exit,           SYS_exit_group,      SYS_clone,
                                   SYS_clone3, SYS_rseq,   SYS_rt_sigprocmask, SYS_set_robust_list, SYS_rt_sigaction};

/* OpenSSH's child before the user is known (sandbox-seccomp-filter.c). */
static const int sshd_list[] = {SYS_brk,      SYS_clock_gettime, SYS_close,   SYS_exit,           SYS_exit_group,
                                SYS_futex,    SYS_geteuid,       SYS_getpgid, SYS_getpid,         SYS_getrandom,
                                SYS_gettid,   SYS_gettimeofday,  SYS_getuid,  SYS_madvise,        SYS_mmap,
                                SYS_mprotect, SYS_mremap,        SYS_munmap,  SYS_nanosleep,      SYS_clock_nanosleep,
                                SYS_ppoll,    SYS_pselect6,      SYS_read,    SYS_rt_sigprocmask, SYS_shutdown,
                                SYS_write,    SYS_writev};

/* systemd's @default and @basic-io, and the memory calls of @system-service. */
static const int systemd_list[] = {SYS_brk,
                                   SYS_clock_getres,
                                   SYS_clock_gettime,
                                   SYS_clock_nanosleep,
                                   SYS_execve,
                                   SYS_exit,
                                   SYS_exit_group,
                                   SYS_futex,
                                   SYS_getegid,
                                   SYS_geteuid,
                                   SYS_getgid,
                                   SYS_getpid,
                                   SYS_getppid,
                                   SYS_getrandom,
                                   SYS_gettid,
                                   SYS_getuid,
                                   SYS_mmap,
                                   SYS_mprotect,
                                   SYS_munmap,
                                   SYS_nanosleep,
                                   SYS_prlimit64,
                                   SYS_rt_sigreturn,
                                   SYS_sched_yield,
                                   SYS_rseq,
                                   SYS_set_robust_list,
                                   SYS_close,
                                   SYS_dup,
                                   SYS_lseek,
                                   SYS_pread64,
                                   SYS_pwrite64,
                                   SYS_read,
                                   SYS_readv,
                                   SYS_write,
                                   SYS_writev,
                                   SYS_madvise,
                                   SYS_mremap};

/* The part of the list of Chromium's renderer (baseline_policy.cc) that a malloc can reach. It has arguments too. */
static const int renderer_list[] = {
    SYS_brk,    SYS_clock_gettime,  SYS_exit,         SYS_exit_group,  SYS_futex,  SYS_getpid,
    SYS_gettid, SYS_madvise,        SYS_mmap,         SYS_mprotect,    SYS_mremap, SYS_munmap,
    SYS_read,   SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_yield, SYS_write};
#define RENDERER_MAP_FLAGS \
  (MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE | MAP_FIXED | MAP_DENYWRITE)
static const int renderer_advice[] = {MADV_DONTNEED, MADV_WILLNEED, MADV_NORMAL, MADV_RANDOM, MADV_REMOVE, MADV_FREE};

typedef struct {
  const char *name;
  const int *calls;
  unsigned count;
  int has_arguments, has_threads;
} list_t;
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LIST(name, ...) \
  { #name, name##_list, COUNT(name##_list), __VA_ARGS__ }
static const list_t lists[] = {LIST(malloc, 0, 0), LIST(threads, 0, 1), LIST(sshd, 0, 0), LIST(systemd, 0, 0),
                               LIST(renderer, 1, 0)};

#endif /* PRELOAD_CALL_LISTS_H */
