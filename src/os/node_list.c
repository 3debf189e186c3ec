/* os/node_list.c - L1. See node_list.h. */
#include "os/node_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "os/syscall.h"

/* The list as far as it was read: it may be longer than any buffer here. */
typedef struct {
  unsigned number; /* the digits since the last other character */
  bool has_number;
  bool has_many;
  unsigned highest;
} node_list_t;

static void end_number(node_list_t *list) {
  if (list->has_number && list->number > list->highest) list->highest = list->number;
  list->number = 0;
}

static void take_character(node_list_t *list, char character) {
  if (character >= '0' && character <= '9') {
    list->number = list->number * 10 + (unsigned)(character - '0');
    list->has_number = true;
    return;
  }
  end_number(list);
  if (character == '-' || character == ',') list->has_many = true;
}

unsigned hk_node_list_read(const char *path) {
  long file = hk_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  if (hk_syscall_failed(file)) return 0;
  node_list_t list = {.number = 0};
  for (;;) {
    char buffer[256];
    long count = hk_syscall3(SYS_read, file, (long)buffer, sizeof(buffer));
    if (count == -EINTR) continue;
    if (count <= 0) break;
    for (long i = 0; i < count; i++) take_character(&list, buffer[i]);
  }
  (void)hk_syscall2(SYS_close, file, 0);
  end_number(&list);
  if (!list.has_number) return 0;
  return list.has_many ? list.highest + 1 : 1;
}
