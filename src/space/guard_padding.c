/* space/guard_padding.c - L3. See guard_padding.h. */
#include "space/guard_padding.h"

#include <stdbool.h>
#include <string.h>

/* Chosen: a value that is neither a small number, nor text, nor an address that a program can have. */
#define FILL 0xF5

void hk_guard_padding_fill(uintptr_t pages, size_t pages_bytes, uintptr_t start, size_t bytes) {
  memset((void *)pages, FILL, start - pages);
  memset((void *)(start + bytes), FILL, pages + pages_bytes - (start + bytes));
}

/* Returns whether each byte of the range is FILL. Whole words first: the padding of a short block is nearly a page. */
static bool is_filled(const unsigned char *at, const unsigned char *end) {
  uint64_t word, filled;
  memset(&filled, FILL, sizeof filled);
  for (; at + sizeof word <= end; at += sizeof word) {
    memcpy(&word, at, sizeof word);
    if (word != filled) return false;
  }
  for (; at < end; at++) {
    if (*at != FILL) return false;
  }
  return true;
}

uintptr_t hk_guard_padding_damage(uintptr_t pages, size_t pages_bytes, uintptr_t start, size_t bytes) {
  const unsigned char *block = (const unsigned char *)start, *end = block + bytes;
  const unsigned char *first = (const unsigned char *)pages, *last = first + pages_bytes;
  if (!is_filled(end, last)) {
    while (*end == FILL) end++;
    return (uintptr_t)end;
  }
  if (is_filled(first, block)) return 0;
  while (block[-1] == FILL) block--;
  return (uintptr_t)block - 1;
}
