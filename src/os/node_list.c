/* os/node_list.c - L1. See node_list.h. */
#include "os/node_list.h"

#include <stdbool.h>

#include "os/kernel_file.h"

/* The list as far as it is read. It may be longer than any fixed line buffer. */
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
  hk_kernel_file_t file;
  if (!hk_kernel_file_open(&file, path)) return 0;
  node_list_t list = {.number = 0};
  for (char character; hk_kernel_file_character(&file, &character);) take_character(&list, character);
  hk_kernel_file_close(&file);
  end_number(&list);
  if (!list.has_number) return 0;
  return list.has_many ? list.highest + 1 : 1;
}
