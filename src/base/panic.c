/* base/panic.c - L0. See panic.h. The state of the process is broken, so this file uses no layer above and writes by a
 * system call. */
#define _GNU_SOURCE 1

#include "base/panic.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/format.h"

/* Holds a path of a few hundred bytes and a sentence. */
#define MESSAGE_BYTES 1024

void hk_panic(const char *file, int line, const char *sentence) {
  char buffer[MESSAGE_BYTES];
  hk_format_t message;
  /* The last byte is reserved for the newline, also after a truncated text. */
  hk_format_init(&message, buffer, sizeof(buffer) - 1);
  hk_format_print(&message, "hakmem: internal error: %s (%s:%u)", sentence, file, (uint64_t)line);
  buffer[message.length++] = '\n';

  const char *rest = buffer;
  while (message.length > 0) {
    /* syscall, not write: programs often interpose write, and write is a cancellation point. */
    long written = syscall(SYS_write, STDERR_FILENO, rest, message.length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest += written;
    message.length -= (size_t)written;
  }
  abort();
}
