/* os/touched_page.h - L1. Tells which pages of the process's private memory it has touched: the kernel's record of them
 * is /proc/self/pagemap. The other pages hold zeros, or what their file has. Bare system calls, no allocation. */
#ifndef HK_OS_TOUCHED_PAGE_H
#define HK_OS_TOUCHED_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/kernel_file.h"

HK_C_BEGIN

/* The most pages of one look. */
#define HK_TOUCHED_PAGES_MAX 128

typedef struct {
  hk_kernel_file_t file;
  bool is_open;
  uint64_t entries[HK_TOUCHED_PAGES_MAX];
} hk_touched_pages_t;

/* Opens the record, and sets `is_open` to whether that succeeded. `touched` is an address of private memory that was
 * written to: a record that does not have it is another program's, as an emulator's is, and is closed. */
void hk_touched_pages_open(hk_touched_pages_t *pages, const void *touched);

/* Writes a byte for each page of the range: 1 when it was touched and is present or swapped out, else 0. Of memory that
 * processes share, pages that are present in another process alone, or were swapped out, count as untouched. Returns
 * false where the system does not tell. */
bool hk_touched_pages_look(hk_touched_pages_t *pages, uintptr_t start, size_t bytes, unsigned char *is_touched);

/* Closes the record, if it is open. */
void hk_touched_pages_close(hk_touched_pages_t *pages);

HK_C_END

#endif /* HK_OS_TOUCHED_PAGE_H */
