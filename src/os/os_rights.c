/* os/os_rights.c - L1. Implements the rights of the library's threads (os.h) on Linux.
 *
 * The kernel's lines about the two threads in /proc are compared as text. A program may run where there is no /proc
 * (chroot), or have no descriptor left. Then two system calls tell alone. capget returns any thread's capabilities. A
 * thread without CAP_SYS_RESOURCE may use prlimit on another thread only if all user and group numbers of that thread
 * are its own real ones. No call returns another thread's supplementary groups, bounding set, ambient set and
 * no_new_privs: the library's thread gives up its own.
 *
 * The thread never changes its user to have fewer rights: that would make the whole process undumpable.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "os/file_status.h"
#include "os/kernel_file.h"
#include "os/os.h"
#include "os/syscall.h"

/* The kernel's number of the proc file system: in a jail, /proc may be a plain folder. */
#define PROC_MAGIC 0x9fa0

/* The most capabilities that the kernel's words can hold. */
#define CAPABILITY_MAX 64

/* ---- By /proc. */

typedef struct {
  uint64_t digest; /* of the lines of users, groups and capabilities (64-bit FNV-1a) */
  uint64_t no_new_privileges;
  uint64_t filter_mode, filter_count;
} lines_t;

#define DIGEST_BASIS UINT64_C(0xcbf29ce484222325)
#define DIGEST_PRIME UINT64_C(0x100000001b3)

/* The longest label that is compared. */
#define LABEL_BYTES 16

static bool is_one_of(const char *label, const char *const *labels, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(label, labels[i]) == 0) return true;
  }
  return false;
}

static bool is_in_digest(const char *label) {
  static const char *const labels[] = {"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
  return is_one_of(label, labels, sizeof labels / sizeof *labels);
}

/* Returns where the number behind a label is stored; NULL for a label that is ignored. */
static uint64_t *number_of(lines_t *lines, const char *label) {
  if (strcmp(label, "NoNewPrivs") == 0) return &lines->no_new_privileges;
  if (strcmp(label, "Seccomp") == 0) return &lines->filter_mode;
  return strcmp(label, "Seccomp_filters") == 0 ? &lines->filter_count : NULL;
}

/* Reads a label up to the colon; a label that is too long becomes an empty one. Returns false at the end of the
 * file. */
static bool read_label(hk_kernel_file_t *file, char *label) {
  size_t length = 0;
  for (char character; hk_kernel_file_character(file, &character);) {
    if (character == ':') {
      label[length < LABEL_BYTES ? length : 0] = '\0';
      return true;
    }
    if (length < LABEL_BYTES) label[length++] = character;
  }
  return false;
}

static void read_value(hk_kernel_file_t *file, lines_t *lines, const char *label) {
  bool is_digested = is_in_digest(label);
  uint64_t *number = number_of(lines, label);
  for (char character; hk_kernel_file_character(file, &character) && character != '\n';) {
    if (is_digested) lines->digest = (lines->digest ^ (unsigned char)character) * DIGEST_PRIME;
    if (number != NULL && character >= '0' && character <= '9') *number = *number * 10 + (uint64_t)(character - '0');
  }
  if (is_digested) lines->digest *= DIGEST_PRIME; /* the line's end, which keeps lines apart */
}

/* Returns 0 for a file of the proc file system, else the error number. Where a filter may kill for fstatfs, the file's
 * size decides: the kernel's files with such lines have none, files with a content of their own have one. */
static long check_is_proc(long file) {
  struct statfs system;
  struct stat about;
  bool is_by_size = !hk_sandbox_permits(SYS_fstatfs);
  long error = is_by_size ? hk_file_status(file, &about) : -hk_syscall2(SYS_fstatfs, file, (long)&system);
  if (error != 0) return error;
  return (is_by_size ? about.st_size == 0 : system.f_type == PROC_MAGIC) ? 0 : ENOENT;
}

/* Reads a thread's lines. Returns 0 or the error number. */
static long read_lines(const char *path, lines_t *lines) {
  hk_kernel_file_t file;
  *lines = (lines_t){.digest = DIGEST_BASIS};
  if (!hk_kernel_file_open(&file, path)) return -file.file;
  long error = check_is_proc(file.file);
  for (char label[LABEL_BYTES + 1]; error == 0 && read_label(&file, label);) read_value(&file, lines, label);
  hk_kernel_file_close(&file);
  return error == 0 && lines->digest == DIGEST_BASIS ? ENOENT : error;
}

static void forgo_new_privileges(void) { (void)hk_syscall6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); }

static hk_rights_t compare_lines(const lines_t *own, const lines_t *firsts) {
  if (firsts->filter_mode > own->filter_mode || firsts->filter_count > own->filter_count) return hk_rights_confined;
  if (firsts->digest != own->digest) return hk_rights_differ;
  bool must_forgo = firsts->no_new_privileges > own->no_new_privileges;
  if (must_forgo && !hk_sandbox_permits(SYS_prctl)) return hk_rights_differ;
  if (must_forgo) forgo_new_privileges();
  return hk_rights_same;
}

/* ---- By system calls alone. */

typedef struct {
  struct __user_cap_data_struct word[_LINUX_CAPABILITY_U32S_3];
} capabilities_t;

static bool get_capabilities(long thread, capabilities_t *found) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = (int)thread};
  __builtin_memset(found, 0, sizeof *found);
  return hk_syscall2(SYS_capget, (long)&header, (long)found) == 0;
}

/* Sets the caller's capabilities. */
static bool set_capabilities(const capabilities_t *wanted) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  return hk_syscall2(SYS_capset, (long)&header, (long)wanted) == 0;
}

static bool has_any(const capabilities_t *own) { return (own->word[0].permitted | own->word[1].permitted) != 0; }

/* Returns whether the caller has one user number and one group number. */
static bool is_uniform(void) {
  unsigned user[3], group[3];
  if (hk_syscall3(SYS_getresuid, (long)&user[0], (long)&user[1], (long)&user[2]) != 0) return false;
  if (hk_syscall3(SYS_getresgid, (long)&group[0], (long)&group[1], (long)&group[2]) != 0) return false;
  return user[0] == user[1] && user[1] == user[2] && group[0] == group[1] && group[1] == group[2];
}

/* Gives up the rights of the caller that no call shows of another thread. Both threads have equal capabilities here.
 * While the first thread has the capability to change groups or the bounding set, it may take all of these itself.
 * Without the capability, this changes nothing. */
static void give_up_hidden_rights(void) {
  (void)hk_syscall2(SYS_setgroups, 0, 0);
  (void)hk_syscall6(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0);
  long capability = 0;
  while (capability < CAPABILITY_MAX && hk_syscall6(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0, 0) == 0)
    capability++;
}

/* Returns all permitted capabilities as effective, without CAP_SYS_RESOURCE, with which prlimit succeeds for any
 * numbers. */
static capabilities_t for_query(const capabilities_t *own) {
  capabilities_t result = *own;
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) result.word[i].effective = own->word[i].permitted;
  result.word[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
  return result;
}

/* Compares user and group numbers. Requires that the caller has one of each. */
static hk_rights_t compare_numbers(long first) {
  struct rlimit limit;
  long answer = hk_syscall4(SYS_prlimit64, first, RLIMIT_CORE, 0, (long)&limit);
  if (answer == 0) return hk_rights_same;
  return answer == -EPERM ? hk_rights_differ : hk_rights_unknown;
}

static hk_rights_t ask_with(const capabilities_t *own, long first) {
  capabilities_t asking = for_query(own);
  if (has_any(own) && !set_capabilities(&asking)) return hk_rights_unknown;
  if (has_any(own)) give_up_hidden_rights();
  hk_rights_t result = compare_numbers(first);
  if (has_any(own) && !set_capabilities(own)) return hk_rights_unknown;
  return result;
}

/* Returns the verdict in a sandbox, which refuses to open files and may end the program for an unexpected call. A
 * thread without capabilities and with one user has no rights that the first one could have given up. */
static hk_rights_t guess_in_sandbox(const capabilities_t *own) {
  return has_any(own) ? hk_rights_unknown : hk_rights_same;
}

typedef enum { there_is_none, is_refused, cannot_be_read } reason_t;

static hk_rights_t compare_by_calls(bool was_same, reason_t reason) {
  long first = (long)hk_os_process_id();
  capabilities_t own, firsts;
  if (!get_capabilities(0, &own) || !get_capabilities(first, &firsts)) return hk_rights_unknown;
  if (__builtin_memcmp(&own, &firsts, sizeof own) != 0) return hk_rights_differ;
  if (!is_uniform()) return hk_rights_unknown;
  if (reason == is_refused) return guess_in_sandbox(&own);
  forgo_new_privileges();
  if (was_same && !has_any(&own)) return reason == there_is_none ? hk_rights_settled : hk_rights_same;
  return ask_with(&own, first);
}

/* ---- os.h. */

static reason_t reason_of(long error) {
  if (error == EPERM || error == EACCES || error == ENOSYS) return is_refused;
  return error == ENOENT || error == ENOTDIR ? there_is_none : cannot_be_read;
}

hk_rights_t hk_os_rights(bool was_same) {
  lines_t firsts, own;
  long error = read_lines("/proc/self/status", &firsts);
  if (error == 0) error = read_lines("/proc/thread-self/status", &own);
  return error == 0 ? compare_lines(&own, &firsts) : compare_by_calls(was_same, reason_of(error));
}
