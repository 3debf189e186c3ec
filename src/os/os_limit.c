/* os/os_limit.c - L1. Implements the memory limits of os.h on Linux. */
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "base/text.h"
#include "os/kernel_file.h"
#include "os/memory_limit.h"
#include "os/os.h"
#include "os/own_stack.h"
#include "os/sandbox.h"
#include "os/syscall.h"

/* Written once, by the first thread that searches; the release of `stage` publishes it. */
static hk_memory_limit_place_t place;

typedef enum { not_found_yet, being_found, found_place } stage_t;
static _Atomic(int) stage = not_found_yet;

/* Finds the place of the limits once. Returns false while another thread searches. In a child of fork that began during
 * the search it stays false: such a child has no limit. */
static bool has_place(hk_memory_limit_buffers_t *buffers) {
  int expected = not_found_yet;
  if (hk_load_acquire(&stage) == found_place) return true;
  if (!hk_publish_once(&stage, &expected, (int)being_found)) return expected == found_place;
  (void)hk_memory_limit_find(&place, "", buffers); /* a place without limits has no levels */
  hk_store_release(&stage, found_place);
  return true;
}

/* Returns the number behind the next space of the text, and moves the text behind it; 0 where there is none. */
static uint64_t next_number(const char **text) {
  uint64_t number = 0;
  const char *rest = *text == NULL ? NULL : hk_text_after(*text, " ");
  *text = rest == NULL ? NULL : hk_text_number(rest, &number);
  return number;
}

/* The file has "size resident shared ...", in pages. That of /proc/self has zeros after the end of the first thread. */
static size_t anonymous_bytes(hk_memory_limit_buffers_t *buffers) {
  hk_kernel_file_t *reader = &buffers->limit.reader;
  if (!hk_kernel_file_open(reader, "/proc/thread-self/statm")) return 0;
  uint64_t size;
  bool is_read = hk_kernel_file_line(reader, buffers->limit.line);
  hk_kernel_file_close(reader);
  const char *text = is_read ? hk_text_number(buffers->limit.line, &size) : NULL;
  uint64_t resident = next_number(&text);
  uint64_t shared = next_number(&text);
  return hk_subtract_to_zero(resident, shared) * hk_os_page_size();
}

typedef struct {
  hk_os_memory_limit_t *limit;
  bool is_told;
} look_t;

/* Has the working memory of the read in its frame. */
static void look(void *context) {
  look_t *request = context;
  hk_memory_limit_buffers_t buffers;
  if (!has_place(&buffers) || !hk_memory_limit_read(&place, request->limit, &buffers)) return;
  request->limit->stalled_permille = hk_memory_limit_stalled(&place, "/proc/pressure/memory", &buffers);
  request->limit->anonymous_bytes = anonymous_bytes(&buffers);
  request->is_told = true;
}

bool hk_os_memory_limit(hk_os_memory_limit_t *limit) {
  if (hk_sandbox_is_own()) return false;
  look_t request = {.limit = limit};
  return hk_own_stack_run(look, &request) && request.is_told;
}

static bool is_unlimited(int resource) {
  struct rlimit limit;
  return hk_syscall4(SYS_prlimit64, 0, resource, 0, (long)&limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

bool hk_os_limits_addresses(void) { return !is_unlimited(RLIMIT_AS) || !is_unlimited(RLIMIT_DATA); }
