/* os/thread_call.c - L1. See thread_call.h. A process may always read these files of its own threads, unless it is
 * undumpable: then root owns its files in /proc. */
#include "os/thread_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "base/format.h"
#include "base/text.h"
#include "os/os.h"
#include "os/syscall.h"

/* ---- One thread's line: "running", "-1 sp pc", or "number argument... sp pc". */

/* Reads at most `most` words. Returns their number. */
static unsigned read_words(const char *text, uintptr_t *words, unsigned most) {
  unsigned count = 0;
  uint64_t value;
  while (count < most && (text = hk_text_after(text, " 0x")) != NULL && (text = hk_text_hex(text, &value)) != NULL) {
    words[count++] = (uintptr_t)value;
  }
  return count;
}

hk_thread_call_t hk_thread_call_parse(const char *line) {
  hk_thread_call_t call = {.state = hk_thread_runs};
  uintptr_t words[hk_thread_words];
  uint64_t number;
  const char *text = hk_text_after(line, "-1");
  if (text != NULL) {
    if (read_words(text, words, 2) != 2) return call;
    call.state = words[0] != 0 ? hk_thread_pauses : hk_thread_is_over;
    call.word[hk_thread_stack_pointer] = words[0];
    call.word[hk_thread_code_pointer] = words[1];
    return call;
  }
  text = hk_text_number(line, &number);
  if (text == NULL || read_words(text, words, hk_thread_words) != hk_thread_words) return call;
  call.state = hk_thread_calls;
  call.number = number;
  for (unsigned i = 0; i < hk_thread_words; i++) call.word[i] = words[i];
  return call;
}

/* The longest line: a number of up to 20 digits, and eight words. */
#define LINE_BYTES 256

/* Reads a line without the buffers of a kernel file: the callers' stacks may be small. */
static bool read_line(const char *path, char *line) {
  long file = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  if (hk_syscall_failed(file)) return false;
  long count;
  do count = hk_syscall3(SYS_read, file, (long)line, LINE_BYTES - 1);
  while (count == -EINTR);
  (void)hk_syscall2(SYS_close, file, 0);
  if (count <= 0) return false;
  line[count] = '\0';
  return true;
}

/* Reads the first line of a thread's file. */
static bool read_line_of(uint64_t thread, const char *name, char *line) {
  char path[64];
  hk_format_t text;
  hk_format_init(&text, path, sizeof path);
  hk_format_print(&text, "/proc/self/task/%u/%s", thread, name);
  return read_line(path, line);
}

hk_thread_call_t hk_thread_call_of(uint64_t thread) {
  char line[LINE_BYTES];
  return hk_thread_call_parse(read_line_of(thread, "syscall", line) ? line : "");
}

uint64_t hk_thread_call_cpu_ns(uint64_t thread) {
  char line[LINE_BYTES];
  uint64_t cpu_ns = 0;
  if (read_line_of(thread, "schedstat", line)) (void)hk_text_number(line, &cpu_ns);
  return cpu_ns;
}

bool hk_thread_call_is_there(uint64_t thread) {
  char line[LINE_BYTES];
  return read_line_of(thread, "status", line);
}

/* ---- All threads. */

/* A folder's entry as the kernel writes it; the name goes on to `bytes`. */
typedef struct {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[];
} entry_t;

static void visit_entries(const char *entries, long count, void (*visit)(void *, uint64_t), void *context) {
  const entry_t *entry;
  for (long at = 0; at < count; at += entry->bytes) {
    uint64_t thread;
    entry = (const entry_t *)(const void *)(entries + at);
    if (hk_text_number(entry->name, &thread) != NULL) visit(context, thread); /* skips "." and ".." */
  }
}

bool hk_thread_call_each(void (*visit)(void *context, uint64_t thread), void *context) {
  _Alignas(entry_t) char entries[1024];
  long folder = hk_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (hk_syscall_failed(folder)) return false;
  long count;
  do {
    count = hk_syscall3(SYS_getdents64, folder, (long)entries, sizeof entries);
    if (count > 0) visit_entries(entries, count, visit, context);
  } while (count > 0 || count == -EINTR);
  (void)hk_syscall2(SYS_close, folder, 0);
  return count == 0;
}

uint64_t hk_thread_call_own(void) {
  return hk_sandbox_may_kill() ? hk_os_thread_self().number : (uint64_t)hk_syscall2(SYS_gettid, 0, 0);
}
