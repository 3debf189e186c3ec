/* Runs a program with the library preloaded, and refuses system calls of that library: refuse_nth LIBRARY PROGRAM
 * [WORD...]
 *
 * Each line of standard input is one run, from exec to the end: `CALL DETAIL NTH HOW ERROR`. CALL is a call's name,
 * `any` or `none`; DETAIL tells calls of one name apart (detail_of below). The NTH such call of the library gets ERROR,
 * without being made; HOW is `once`, or `lasting`: from that one on, until the program says that the refusals end
 * (supervised.h). Each run answers `CODE HITS TEXT_BYTES KINDS PID`, then what the program wrote to stderr, then a line
 * `CALL DETAIL COUNT` for each of KINDS kinds of call that the library made.
 *
 * A seccomp filter sends every call to this process, which lets it go on or makes up the answer; so it reaches threads
 * that block all signals, and calls in places where no signal handler may run. A call is the library's when its
 * instruction is, and the C library's calls that make a thread count as the library's. No call of the program itself is
 * refused.
 */
#define _GNU_SOURCE 1

#include "call_names.h"
#include "check.h"
#include "supervised.h"

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

enum { exit_hangs = 1000, exit_spins = 1001, most_seconds = 400, most_calls = 400000 };

/* Chosen: the kernel interrupts a call for a signal, and signals end. */
enum { most_interruptions = 20 };

enum { mask_given_back = 1 }; /* by a call that does not ask for the mask before it */

static const char *library;

/* ---- The refusals. */

typedef struct {
  int refuses, is_any, lasts;
  long number, detail, nth;
  int error;
} wish_t;

typedef struct {
  long number, detail, count;
} kind_t;

static struct {
  kind_t kinds[256];
  unsigned kind_count;
  long seen, hits, calls;
  int is_over;
} run;

/* Tells calls of one name apart that the library makes for different reasons. */
static long detail_of(const struct seccomp_data *call) {
  switch (call->nr) {
    case SYS_madvise:
      return (long)call->args[2];
    case SYS_mremap:
      return (long)call->args[3];
    case SYS_mmap:
      return (call->args[3] & MAP_STACK) != 0;
    case SYS_fcntl:
      return (long)call->args[1];
    case SYS_futex:
      return (long)call->args[1] & FUTEX_CMD_MASK;
    case SYS_prctl:
      return (long)call->args[0];
    case SYS_rt_sigprocmask:
      return call->args[0] == SIG_SETMASK && call->args[2] == 0 ? mask_given_back : 0;
    default:
      return 0;
  }
}

static void note(long number, long detail) {
  unsigned i = 0;
  while (i < run.kind_count && (run.kinds[i].number != number || run.kinds[i].detail != detail)) i++;
  if (i == run.kind_count && i < sizeof run.kinds / sizeof *run.kinds) {
    run.kinds[run.kind_count++] = (kind_t){number, detail, 0};
  }
  run.kinds[i].count++;
  run.calls++;
}

/* No kernel refuses a thread its end, or a wake-up of an address that is there: a sleeper would never learn of it. And
 * none lets a thread block signals, refuses it the mask that it had, and later gives it one: a filter never goes. */
static int can_be_refused(long number, long detail) {
  if (number == SYS_rt_sigprocmask) return detail != mask_given_back;
  return number != SYS_exit && number != SYS_exit_group && (number != SYS_futex || detail == FUTEX_WAIT);
}

static int is_to_be_refused(const wish_t *wish, long number, long detail) {
  if (!wish->refuses || run.is_over || !can_be_refused(number, detail)) return 0;
  if (!wish->is_any && (number != wish->number || detail != wish->detail)) return 0;
  long nth = ++run.seen;
  if (wish->lasts ? nth < wish->nth : nth != wish->nth) return 0;
  if (wish->error == EINTR && run.hits >= most_interruptions) return 0;
  run.hits++;
  return 1;
}

/* ---- The code that makes a call. */

typedef struct {
  uint64_t start, end;
  int is_library;
} code_t;

static code_t code[128];
static unsigned code_count;

static void read_code(pid_t process) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
  FILE *maps = fopen(path, "re");
  code_count = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL && code_count < sizeof code / sizeof *code) {
    unsigned long start, end;
    char access[8];
    if (sscanf(line, "%lx-%lx %7s", &start, &end, access) != 3 || strchr(access, 'x') == NULL) continue;
    const char *file = strchr(line, '/');
    if (file != NULL) line[strcspn(line, "\n")] = '\0';
    code[code_count++] = (code_t){start, end, file != NULL && strcmp(file, library) == 0};
  }
  if (maps != NULL) fclose(maps);
}

static const code_t *find_code(uint64_t address) {
  for (unsigned i = 0; i < code_count; i++) {
    if (address >= code[i].start && address < code[i].end) return &code[i];
  }
  return NULL;
}

static int is_in_library(uint64_t address, pid_t process) {
  const code_t *found = find_code(address);
  if (found == NULL) {
    read_code(process);
    found = find_code(address);
  }
  return found != NULL && found->is_library;
}

static int makes_thread(const struct seccomp_data *call) {
  return call->nr == SYS_clone || call->nr == SYS_clone3 || (call->nr == SYS_mmap && detail_of(call) == 1);
}

/* ---- The filter, and the calls that it sends here. */

/* Since Linux 6.6: the supervisor runs at once on the caller's processor, for the caller waits. Without it both lose a
 * time slice. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (UINT64_C(1) << 0)
#endif

static int install_filter(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1), /* by which the supervisor gets the filter */
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
  const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

typedef union {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(int))];
} control_t;

static void send_file(int socket, int file) {
  char byte = 0;
  struct iovec part = {&byte, 1};
  control_t control;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.head), &file, sizeof file);
  (void)sendmsg(socket, &message, 0);
}

/* -1: the child has no filter. */
static int receive_file(int socket) {
  char byte;
  struct iovec part = {&byte, 1};
  control_t control;
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  int file = -1;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && message.msg_controllen >= CMSG_LEN(sizeof file)) {
    memcpy(&file, CMSG_DATA(&control.head), sizeof file);
  }
  return file;
}

/* Answers one call. The kernel requires a zeroed question, and takes an answer for a thread that has ended
 * meanwhile. */
static void answer(int listener, const wish_t *wish, pid_t process) {
  struct seccomp_notif question;
  memset(&question, 0, sizeof question);
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) return;
  struct seccomp_notif_resp response = {.id = question.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  const struct seccomp_data *call = &question.data;
  if (call->nr == mark_of_the_end) {
    run.is_over = 1;
    response.flags = 0;
  } else if (call->nr == SYS_execve) {
    code_count = 0;
  } else if (is_in_library(call->instruction_pointer, process) || makes_thread(call)) {
    long detail = detail_of(call);
    note(call->nr, detail);
    if (is_to_be_refused(wish, call->nr, detail)) {
      response.flags = 0;
      response.error = -wish->error;
    }
  }
  (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static long now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/* Answers until the program has ended. Returns 0, or why this process ended it. */
static int attend(int listener, const wish_t *wish, pid_t process) {
  long end_s = now_s() + most_seconds;
  for (;;) {
    struct pollfd file = {.fd = listener, .events = POLLIN};
    (void)poll(&file, 1, 1000);
    if ((file.revents & POLLIN) != 0) {
      answer(listener, wish, process);
    } else if (file.revents != 0) {
      return 0;
    }
    int reason = now_s() > end_s ? exit_hangs : run.calls > most_calls ? exit_spins : 0;
    if (reason == 0) continue;
    kill(process, SIGKILL);
    return reason;
  }
}

/* ---- A run. */

static void become(char **words, int output, int socket) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (dup2(nothing, 0) != 0 || dup2(nothing, 1) != 1 || dup2(output, 2) != 2) _exit(exit_failed);
  if (setenv("LD_PRELOAD", library, 1) != 0) _exit(exit_failed);
  int listener = install_filter();
  if (listener < 0) _exit(exit_skipped);
  send_file(socket, listener);
  execv(words[0], words);
  _exit(exit_failed);
}

static void print_text(int file, off_t bytes) {
  char part[4096];
  for (off_t at = 0; at < bytes;) {
    ssize_t count = pread(file, part, sizeof part, at);
    if (count <= 0) return;
    fwrite(part, 1, (size_t)count, stdout);
    at += count;
  }
}

static void run_once(const wish_t *wish, char **words) {
  int sockets[2], output = memfd_create("stderr", MFD_CLOEXEC);
  CHECK(output >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  memset(&run, 0, sizeof run);
  code_count = 0;
  pid_t process = fork();
  CHECK(process >= 0);
  if (process == 0) become(words, output, sockets[1]);
  close(sockets[1]);
  int listener = receive_file(sockets[0]), status = 0;
  if (listener >= 0) (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
  int reason = listener >= 0 ? attend(listener, wish, process) : 0;
  if (listener >= 0) close(listener);
  close(sockets[0]);
  CHECK(waitpid(process, &status, 0) == process);
  int result = reason != 0 ? reason : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  off_t bytes = lseek(output, 0, SEEK_END);
  printf("%d %ld %ld %u %d\n", result, run.hits, (long)bytes, run.kind_count, (int)process);
  print_text(output, bytes);
  for (unsigned i = 0; i < run.kind_count; i++) {
    printf("%s %ld %ld\n", call_name(run.kinds[i].number), run.kinds[i].detail, run.kinds[i].count);
  }
  fflush(stdout);
  close(output);
}

static int read_wish(wish_t *wish) {
  char name[64], how[16];
  if (scanf("%63s %ld %ld %15s %d", name, &wish->detail, &wish->nth, how, &wish->error) != 5) return 0;
  wish->refuses = strcmp(name, "none") != 0;
  wish->is_any = strcmp(name, "any") == 0;
  wish->lasts = strcmp(how, "lasting") == 0;
  wish->number = call_number(name);
  CHECK(!wish->refuses || wish->is_any || wish->number >= 0);
  return 1;
}

int main(int count, char **words) {
  if (count < 3) return exit_usage;
  library = words[1];
  setvbuf(stdin, NULL, _IOLBF, 4096);
  for (wish_t wish; read_wish(&wish);) run_once(&wish, words + 2);
  return 0;
}
