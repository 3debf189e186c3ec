/* tests/preload/kill_filter.c - a program that installs a filter, by which the kernel ends it for each system call that
 * a list does not name, and then uses all of malloc: kill_filter LIST HOW WHEN. LIST names the list, HOW the way to
 * install it, WHEN the program's course before. LIST `proven`, with `alone` or `threads` for HOW, permits what the
 * dynamic loader and the C library call, and starts the program again. LIST `output` exits with a buffered output under
 * a filter. LIST `written`, with the names of calls for HOW, permits the library those alone, and the library does not
 * see the filter. LIST `unseen` permits what every malloc needs to the first thread alone, and the library does not see
 * the filter either.
 */
#define _GNU_SOURCE 1

#include "call_lists.h"
#include "call_names.h"
#include "check.h"
#include "raw_call.h"
#include "with_purge_thread.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { threads_before = 3, thread_rounds = 2, remote_blocks = 20000 };

/* ---- The filter. */

static struct sock_filter filter[256];
static unsigned short length;

static void put(struct sock_filter one) { filter[length++] = one; }
static void put_load(size_t offset) { put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }
/* Permits if the accumulator is this. */
static void put_case(unsigned value) {
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static void put_arguments(void) {
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3));
  put_load(offsetof(struct seccomp_data, args[3]));
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~(unsigned)RENDERER_MAP_FLAGS, 0, 1));
  put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  put_load(offsetof(struct seccomp_data, nr));
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 2 + 2 * COUNT(renderer_advice)));
  put_load(offsetof(struct seccomp_data, args[2]));
  for (unsigned i = 0; i < COUNT(renderer_advice); i++) put_case((unsigned)renderer_advice[i]);
  put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  put_load(offsetof(struct seccomp_data, nr));
}

static void make_filter(const list_t *list) {
  put_load(offsetof(struct seccomp_data, nr));
  if (list->has_arguments) put_arguments();
  for (unsigned i = 0; i < list->count; i++) put_case((unsigned)list->calls[i]);
  put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

static void install(const char *how) {
  struct sock_fprog program = {length, filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  long refused = strcmp(how, "prctl") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                 : strcmp(how, "syscall") == 0
                     ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                     : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (refused == 0) return;
  puts("this kernel or container allows no seccomp filter");
  exit(exit_skipped);
}

/* ---- Uses of malloc. */

static void use_size(size_t size) {
  unsigned char *block = malloc(size);
  CHECK(block != NULL && malloc_usable_size(block) >= size);
  memset(block, 1, size);
  block = realloc(block, size * 2);
  CHECK(block != NULL && block[size - 1] == 1);
  memset(block, 2, size * 2);
  block = realloc(block, size);
  CHECK(block != NULL && block[size - 1] == 2);
  free(block);
  block = calloc(1, size);
  CHECK(block != NULL && block[0] == 0 && block[size - 1] == 0);
  free(block);
  void *aligned = NULL;
  CHECK(posix_memalign(&aligned, size < 65536 ? 4096 : 65536, size) == 0);
  free(aligned);
}

static void use_many(size_t size, size_t bytes) {
  static _Thread_local void *blocks[60000];
  size_t count = bytes / size < COUNT(blocks) ? bytes / size : COUNT(blocks);
  for (size_t i = 0; i < count; i++) CHECK((blocks[i] = malloc(size)) != NULL);
  for (size_t i = 0; i < count; i++) memset(blocks[i], 3, size);
  for (size_t i = 0; i < count; i++) free(blocks[i]);
}

static void use_all(void) {
  for (int turn = 0; turn < 2; turn++) {
    for (size_t size = 16; size <= 64 * MIB; size = size * 3 / 2) use_size(size);
    for (size_t size = 16; size <= 4 * MIB; size *= 3) use_many(size, 20 * MIB);
    (void)malloc_trim(0);
  }
}

static void *remote[remote_blocks];

/* Uses all, frees blocks of another thread, and leaves blocks for another thread to free. */
static void *run_thread(void *unused) {
  for (int i = 0; i < remote_blocks; i++) free(remote[i]);
  for (int i = 0; i < remote_blocks; i++) CHECK((remote[i] = malloc((size_t)i % 3000 + 1)) != NULL);
  use_all();
  return unused;
}

static void use_threads(void) {
  for (int i = 0; i < thread_rounds; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  use_all();
}

/* ---- The course before the filter. */

static atomic_int is_over;

static void *allocate_until_over(void *unused) {
  while (!is_over) {
    use_many(30000, 24 * MIB);
    usleep(1000);
  }
  return unused;
}

/* Threads and freed memory bring about a purge thread; the program's own threads end before the filter comes. */
static void have_threads(void) {
  for (int i = 0; i < threads_before; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_until_over, NULL) == 0);
    if (i + 1 < threads_before) CHECK(pthread_detach(thread) == 0);
  }
  for (int i = 0; i < 10; i++) {
    use_many(100000, 60 * MIB);
    usleep(10000);
  }
  is_over = 1;
  usleep(300000); /* the threads have ended: a filter that is for all of them would end them in a call of their own */
}

/* Sends the command line tool's signal again and again, from before the filter until this process has ended. */
static void have_a_tool(void) {
  const int parent = getpid();
  if (fork() != 0) return;
  while (getppid() == parent && sigqueue(parent, 58, (union sigval){.sival_ptr = (void *)0x68616b6d656d}) == 0)
    usleep(500);
  _exit(0);
}

static void say(const char *text) { CHECK(write(1, text, strlen(text)) == (ssize_t)strlen(text)); }

/* Permits read, write and exit alone: malloc serves from the memory that it has. */
static void run_strictly(void) {
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  static void *blocks[1000];
  unsigned have = 0;
  for (unsigned i = 0; i < COUNT(blocks); i++) have += (blocks[i] = malloc(64 + i % 64)) != NULL;
  for (unsigned i = 0; i < COUNT(blocks); i++) free(blocks[i]);
  void *volatile large = malloc((size_t)1 << 40); /* the program lives on without it */
  say(have == COUNT(blocks) && large == NULL ? "done\n" : "too little\n");
  syscall(SYS_exit, 0);
}

/* ---- The library's own list. */

/* Further calls of this program and the C library, to begin, wait and end. */
static const int own_list[] = {SYS_exit,      SYS_exit_group,   SYS_clock_nanosleep,
                               SYS_nanosleep, SYS_rt_sigreturn, SYS_set_robust_list,
                               SYS_rseq,      SYS_write};

/* Where the library's code is; 0 where no such file is mapped. */
static void find_library(unsigned long *start, unsigned long *end) {
  char line[1024];
  FILE *maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL);
  *start = *end = 0;
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to;
    char access[8];
    if (strstr(line, "/libhakmem") == NULL || sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3) continue;
    if (strchr(access, 'x') != NULL) *start = from, *end = to;
  }
  fclose(maps);
}

static void put_kill(void) { put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)); }

/* Ends the program for each call that the list does not name; outside of the library's code own_list is permitted
 * too. */
static void make_written_filter(char *names) {
  unsigned long start, end;
  find_library(&start, &end);
  CHECK(end != 0);
  if (start >> 32 != (end - 1) >> 32)
    puts("a filter compares 32 bits, and the library crosses them"), exit(exit_skipped);
  put_load(offsetof(struct seccomp_data, nr));
  for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
    if (call_number(name) < 0) printf("%s is in no table (call_names.h)\n", name), exit(exit_usage);
    put_case((unsigned)call_number(name));
  }
  put_load(offsetof(struct seccomp_data, instruction_pointer) + 4);
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(start >> 32), 0, 4));
  put_load(offsetof(struct seccomp_data, instruction_pointer));
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)start, 0, 2));
  put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)(end - 1), 1, 0));
  put_kill();
  put_load(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < COUNT(own_list); i++) put_case((unsigned)own_list[i]);
  put_kill();
}

/* Installs the filter past the C library's functions, by which the library would see it. */
static void install_unseen(void) {
  struct sock_fprog program = {length, filter};
  CHECK(raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) == 0);
  if (raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&program, 0) == 0) return;
  puts("this kernel or container allows no seccomp filter");
  exit(exit_skipped);
}

/* All of malloc, with threads that come and go, and time for the purge thread. */
static void use_under_written_filter(void) {
  use_all();
  have_threads();
  use_threads();
  use_many(100000, 40 * MIB);
  usleep(1200000);
  use_all();
}

/* Without TSYNC: other threads, ours too, are not under it. */
static void install_unseen_for_one(void) {
  struct sock_fprog program = {length, filter};
  CHECK(raw_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) == 0);
  if (raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0) == 0) return;
  puts("this kernel or container allows no seccomp filter");
  exit(exit_skipped);
}

static atomic_int is_installed, is_seen;

/* Not under the filter: it may look whether the purge thread has ended. */
static void *look_for_its_end(void *unused) {
  void *volatile block = malloc(100);
  while (!is_installed || find_purge_thread() != 0) usleep(10000);
  is_seen = 1;
  for (;;) usleep(100000);
  free(block);
  return unused;
}

/* The filter comes past the library, which learns of it by its purge thread. From then on what every malloc calls is
 * enough. */
static void use_after_unseen_filter(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, look_for_its_end, NULL) == 0);
  void *volatile held = malloc(32 * MIB); /* worth a purge thread */
  CHECK(held != NULL);
  alarm(60);
  while (find_purge_thread() == 0) use_many(100000, 40 * MIB), usleep(10000);
  put_load(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < COUNT(malloc_list); i++) put_case((unsigned)malloc_list[i]);
  for (unsigned i = 0; i < COUNT(own_list); i++) put_case((unsigned)own_list[i]);
  put_kill();
  install_unseen_for_one();
  is_installed = 1;
  while (!is_seen) usleep(10000);
  free(held);
  use_all();
  usleep(1100000); /* what hakmem does once a second is due */
  use_all();
}

/* Calls that services are seldom permitted, and that no malloc needs. */
static const int denied_list[] = {SYS_mincore, SYS_process_vm_readv, SYS_sched_setscheduler};

/* The filter comes through exec. */
static void start_again(char *program) {
  put_load(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < COUNT(denied_list); i++) {
    put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied_list[i], 0, 1));
    put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  install("prctl");
  execl(program, program, "again", "-", "threads", (char *)NULL);
}

/* What the dynamic loader calls, what the C library calls to begin and end, and for malloc the calls of every malloc.
 * Nothing that tells a process or a thread its number, and no signal handler. */
static const int proven_list[] = {
    SYS_execve,          SYS_openat,     SYS_read,      SYS_pread64,
    SYS_close,           SYS_newfstatat, SYS_fstat,     SYS_mmap,
    SYS_mprotect,        SYS_munmap,     SYS_brk,       SYS_set_tid_address,
    SYS_set_robust_list, SYS_rseq,       SYS_prlimit64, SYS_getrandom,
    SYS_futex,           SYS_write,      SYS_exit,      SYS_exit_group,
    SYS_mremap,          SYS_madvise,
#ifdef SYS_arch_prctl
    SYS_arch_prctl,      SYS_access,
#else
    SYS_faccessat,
#endif
};

/* What a program with threads brings along, and the sleep of this one. */
static const int second_thread_list[] = {SYS_clone, SYS_clone3, SYS_rt_sigprocmask, SYS_rt_sigaction,
                                         SYS_clock_nanosleep};

/* The filter comes through exec, and kills for all that the loader and the C library have not shown. */
static void start_again_on_proven_calls(char *program, const char *course) {
  const int has_threads = strcmp(course, "threads") == 0;
  put_load(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < COUNT(proven_list); i++) put_case((unsigned)proven_list[i]);
  for (unsigned i = 0; has_threads && i < COUNT(second_thread_list); i++) put_case((unsigned)second_thread_list[i]);
  put_kill();
  install("prctl");
  execl(program, program, "survive", "-", course, (char *)NULL);
}

/* The number of the process's threads, which a folder's links tell. */
static unsigned count_threads(void) {
  struct stat about;
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  CHECK(folder >= 0 && fstat(folder, &about) == 0);
  close(folder);
  return (unsigned)about.st_nlink - 2;
}

static atomic_int may_end;

static void *wait_for_end(void *unused) {
  void *volatile block = malloc(100);
  free(block);
  while (!may_end) usleep(10000);
  return unused;
}

/* All of malloc, a purge thread beside two threads of the program's, and time for its checks. */
static void use_with_purge_thread(void) {
  pthread_t thread;
  void *volatile held = malloc(32 * MIB);
  CHECK(held != NULL && pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
  for (int i = 0; i < 1000 && count_threads() < 3; i++) use_many(100000, 40 * MIB), usleep(10000);
  if (count_threads() < 3) say("no purge thread\n");
  usleep(1700000); /* two looks at its rights */
  if (count_threads() < 3) say("the purge thread has ended\n");
  use_many(100000, 40 * MIB);
  may_end = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  free(held);
  use_threads();
}

static void survive(const char *course) {
  use_all();
  if (strcmp(course, "threads") == 0) use_with_purge_thread();
  say("done\n");
  exit(0);
}

/* An output that waits in a buffer until the exit. */
static void exit_with_output(void) {
  printf("done\n");
  make_filter(&lists[0]);
  install("prctl");
  exit(0);
}

int main(int count, char **words) {
  if (count != 4) return exit_usage;
  if (strcmp(words[1], "proven") == 0) start_again_on_proven_calls(words[0], words[2]);
  if (strcmp(words[1], "survive") == 0) survive(words[3]);
  if (strcmp(words[1], "output") == 0) exit_with_output();
  if (strcmp(words[1], "inherited") == 0) start_again(words[0]);
  if (strcmp(words[1], "written") == 0) {
    make_written_filter(words[2]);
    install_unseen();
    use_under_written_filter();
    say("done\n");
    _exit(0);
  }
  if (strcmp(words[1], "unseen") == 0) {
    use_after_unseen_filter();
    say("done\n");
    _exit(0);
  }
  if (strcmp(words[3], "used") == 0) use_all();
  if (strcmp(words[3], "threads") == 0) have_threads();
  if (strcmp(words[3], "tool") == 0) have_a_tool();
  if (strcmp(words[1], "strict") == 0) run_strictly();
  if (strcmp(words[1], "again") == 0) {
    use_all();
    use_threads();
    say("done\n");
    return 0;
  }
  for (unsigned i = 0; i < COUNT(lists); i++) {
    if (strcmp(lists[i].name, words[1]) != 0) continue;
    make_filter(&lists[i]);
    install(words[2]);
    use_all();
    if (lists[i].has_threads) use_threads();
    say("done\n");
    _exit(0);
  }
  return exit_usage;
}
