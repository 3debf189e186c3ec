/* os/touched_page.c - L1. See touched_page.h. The file has a word for each page of addresses. */
#include "os/touched_page.h"

#include <sys/syscall.h>

#include "os/os.h"
#include "os/syscall.h"

/* The two highest bits: present, and swapped out. */
#define TOUCHED_SHIFT 62

bool hk_touched_pages_look(hk_touched_pages_t *pages, uintptr_t start, size_t bytes, unsigned char *is_touched) {
  size_t page_bytes = hk_os_page_size(), count = bytes / page_bytes;
  if (!pages->is_open || count > HK_TOUCHED_PAGES_MAX) return false;
  long wanted = (long)(count * sizeof *pages->entries), at = (long)(start / page_bytes * sizeof *pages->entries);
  if (hk_syscall4(SYS_pread64, pages->file.file, (long)pages->entries, wanted, at) != wanted) return false;
  for (size_t i = 0; i < count; i++) is_touched[i] = pages->entries[i] >> TOUCHED_SHIFT != 0;
  return true;
}

void hk_touched_pages_open(hk_touched_pages_t *pages, const void *touched) {
  size_t page_bytes = hk_os_page_size();
  unsigned char is_touched = 0;
  pages->is_open = hk_kernel_file_open_own(&pages->file, "pagemap");
  if (hk_touched_pages_look(pages, (uintptr_t)touched, page_bytes, &is_touched) && is_touched) return;
  hk_touched_pages_close(pages);
}

void hk_touched_pages_close(hk_touched_pages_t *pages) {
  if (pages->is_open) hk_kernel_file_close(&pages->file);
  pages->is_open = false;
}
