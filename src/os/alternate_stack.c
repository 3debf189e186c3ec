/* os/alternate_stack.c - L1. See alternate_stack.h. Below each stack lies an inaccessible page: a handler that
 * overflows the stack ends the program instead of overwriting other memory. */
#include "os/alternate_stack.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/units.h"
#include "os/os.h"
#include "os/syscall.h"

/* Chosen: the kernel's frame with all registers of a processor takes 4 to 12 KiB, and the program's own handlers may
 * run on this stack too. */
#define STACK_BYTES (64 * HK_KIB)

/* The calling thread's mapping with its inaccessible page; NULL where hakmem gave the thread none. */
static HK_THREAD_LOCAL char *mapping;

static size_t mapping_bytes(void) { return STACK_BYTES + hk_os_page_size(); }

/* Sets the calling thread's alternate stack and reads the one before. `stack` NULL reads alone. Returns false when the
 * system refuses. */
static bool exchange(const stack_t *stack, stack_t *before) {
  return hk_syscall2(SYS_sigaltstack, (long)stack, (long)before) == 0;
}

void hk_alternate_stack_begin(void) {
  stack_t before = {.ss_flags = SS_DISABLE};
  if (mapping != NULL || !exchange(NULL, &before) || (before.ss_flags & SS_DISABLE) == 0) return;
  char *start = hk_os_reserve(mapping_bytes(), hk_os_page_size());
  if (start == NULL) return;
  size_t page_bytes = hk_os_page_size();
  (void)hk_syscall3(SYS_mprotect, (long)start, (long)page_bytes, PROT_NONE);
  stack_t stack = {.ss_sp = start + page_bytes, .ss_size = STACK_BYTES};
  if (exchange(&stack, NULL)) {
    mapping = start;
  } else {
    (void)hk_os_unmap(start, mapping_bytes());
  }
}

void hk_alternate_stack_end(void) {
  if (mapping == NULL) return;
  char *start = mapping;
  stack_t now = {.ss_flags = SS_DISABLE};
  /* the thread ends inside a handler on this stack */
  if (!exchange(NULL, &now) || (now.ss_flags & SS_ONSTACK) != 0) return;
  stack_t none = {.ss_flags = SS_DISABLE};
  if (now.ss_sp == start + hk_os_page_size() && !exchange(&none, NULL)) return;
  mapping = NULL;
  (void)hk_os_unmap(start, mapping_bytes());
}
