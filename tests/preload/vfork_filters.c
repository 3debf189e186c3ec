/* A child of vfork installs a system call filter, as a launcher of sandboxes does, and begins another program. The
 * parent is under no filter: it prints `ok` where hakmem still asks the kernel for its resident memory. argv[1]: prctl,
 * or syscall (seccomp). */
#include "check.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct sock_filter permit_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog filter = {1, permit_all};

/* The first fields of hakmem_stats_t. */
typedef struct {
  uint64_t version, filled, time_ms, uptime_ms, page_bytes, resident;
} stats_t;

int main(int argc, char **argv) {
  CHECK(argc == 2);
  int by_prctl = strcmp(argv[1], "prctl") == 0;
  free(malloc(100));
  pid_t child = vfork();
  if (child == 0) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(exit_failed);
    long refused = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                            : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    if (refused != 0) _exit(exit_skipped);
    execl("/bin/true", "true", NULL);
    _exit(exit_failed);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
  int (*get)(stats_t *, size_t) = (int (*)(stats_t *, size_t))dlsym(RTLD_DEFAULT, "hakmem_stats_get");
  stats_t stats;
  CHECK(get != NULL && get(&stats, sizeof stats) == 0);
  CHECK(stats.resident > 0);
  puts("ok");
  return 0;
}
