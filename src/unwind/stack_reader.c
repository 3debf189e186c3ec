/* unwind/stack_reader.c - L6. See stack_reader.h. A copy by the kernel costs more than the rest of a walk. So each
 * thread keeps the number of pages that are mapped without a gap below its stack's top, and checks each page once.
 * While the thread runs on its stack, no page above its stack pointer goes away. */
#include "unwind/stack_reader.h"

#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/copy_out.h"
#include "os/os.h"
#include "os/stack_top.h"

/* ---- The pages of the thread's stack. */

/* A stack's top, and the number of pages below it that are known to be mapped. One word, so that a signal handler finds
 * both of the same stack. */
#define PAGE_SHIFT 12
#define PAGES_SHIFT 28
#define PAGES_MAX (((uint64_t)1 << PAGES_SHIFT) - 1)
/* The most pages that one call checks; the next call goes on from there. Deep down a stack this takes a few walks. */
#define PAGES_AT_A_TIME 64

static HK_THREAD_LOCAL _Atomic(uint64_t) known;

/* Checks pages from `count` on, up to `wanted`. Returns the number that is known then. */
static uint64_t check_pages(uint64_t top_page, uint64_t count, uint64_t wanted) {
  size_t step = hk_os_page_size() >> PAGE_SHIFT;
  uint64_t most = count + PAGES_AT_A_TIME * step;
  while (count < wanted && count < most && hk_os_can_read((top_page - count) << PAGE_SHIFT)) count++;
  return count;
}

/* Stores the range from `sp` to the stack's top, when all its pages are known to be mapped; else an empty range. */
static void find_own(hk_stack_reader_t *reader, uintptr_t sp) {
  uintptr_t top = hk_os_stack_top(sp);
  reader->own_start = reader->own_end = 0;
  uint64_t top_page = top >> PAGE_SHIFT, sp_page = sp >> PAGE_SHIFT;
  if (sp >= top || top_page - sp_page >= PAGES_MAX) return;
  uint64_t found = hk_load_relaxed(&known), wanted = top_page - sp_page + 1;
  uint64_t count = found >> PAGES_SHIFT == top_page ? found & PAGES_MAX : 0;
  if (count < wanted) {
    uint64_t more = check_pages(top_page, count, wanted);
    if (more != count) hk_store_relaxed(&known, top_page << PAGES_SHIFT | more);
    count = more;
  }
  if (count < wanted) return;
  reader->own_start = sp;
  reader->own_end = top;
}

/* ---- Reading. */

/* A copy begins up to this far below the first word that is read: a function's saved registers lie together, and
 * the lowest is not read first. */
#define SAVED_BYTES 128

void hk_stack_reader_init(hk_stack_reader_t *reader, uintptr_t sp) {
  reader->copy_start = 0;
  reader->copy_bytes = 0;
  hk_stack_reader_move(reader, sp);
}

void hk_stack_reader_move(hk_stack_reader_t *reader, uintptr_t sp) {
  reader->sp = sp;
  find_own(reader, sp);
}

static bool is_within(uintptr_t address, uintptr_t start, size_t bytes) {
  return address >= start && address - start <= bytes && bytes - (address - start) >= sizeof(uintptr_t);
}

static bool read_copy(hk_stack_reader_t *reader, uintptr_t address, uintptr_t *word) {
  if (!is_within(address, reader->copy_start, reader->copy_bytes)) {
    reader->copy_start = address;
    if (address >= reader->sp) {
      reader->copy_start = address - reader->sp < SAVED_BYTES ? reader->sp : address - SAVED_BYTES;
    }
    reader->copy_bytes = hk_os_copy_out(reader->copy, reader->copy_start, sizeof(reader->copy));
    if (!is_within(address, reader->copy_start, reader->copy_bytes)) return false;
  }
  memcpy(word, reader->copy + (address - reader->copy_start), sizeof *word);
  return true;
}

bool hk_stack_reader_word(hk_stack_reader_t *reader, uintptr_t address, uintptr_t *word) {
  if (!is_within(address, reader->own_start, reader->own_end - reader->own_start)) {
    return read_copy(reader, address, word);
  }
  if (!hk_is_aligned(address, sizeof(uintptr_t))) return false;
  *word = hk_stack_reader_own_word(address);
  return true;
}
