/* os/own_stack.c - L1. See own_stack.h. */
#include "os/own_stack.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/units.h"
#include "os/os.h"
#include "os/sandbox.h"
#include "os/signal_action.h"
#include "os/syscall.h"

/* Chosen: the C library's start of a thread, with one of its own signal handlers on top of it. */
#define STACK_BYTES (64 * HK_KIB)

/* Calls run(context) with the stack pointer at `top`. The frame pointer keeps the caller's stack, for the way back and
 * for unwinders. */
HK_HIDDEN void hk_own_stack_call(void (*run)(void *context), void *context, void *top);

#if defined(__x86_64__)
#define FUNCTION "@function\n"
#define BODY                     \
  "pushq %rbp\n"                 \
  ".cfi_def_cfa_offset 16\n"     \
  ".cfi_offset %rbp, -16\n"      \
  "movq %rsp, %rbp\n"            \
  ".cfi_def_cfa_register %rbp\n" \
  "movq %rdi, %rax\n"            \
  "movq %rsi, %rdi\n"            \
  "movq %rdx, %rsp\n"            \
  "callq *%rax\n"                \
  "leave\n"                      \
  ".cfi_def_cfa %rsp, 8\n"       \
  "ret\n"
#elif defined(__aarch64__)
#define FUNCTION "%function\n"
#define BODY                    \
  "stp x29, x30, [sp, #-16]!\n" \
  ".cfi_def_cfa_offset 16\n"    \
  ".cfi_offset x29, -16\n"      \
  ".cfi_offset x30, -8\n"       \
  "mov x29, sp\n"               \
  ".cfi_def_cfa_register x29\n" \
  "mov x9, x0\n"                \
  "mov x0, x1\n"                \
  "mov sp, x2\n"                \
  "blr x9\n"                    \
  "mov sp, x29\n"               \
  "ldp x29, x30, [sp], #16\n"   \
  ".cfi_def_cfa sp, 0\n"        \
  "ret\n"
#endif

__asm__(
    ".pushsection .text.hk_own_stack_call, \"ax\"\n"
    ".globl hk_own_stack_call\n"
    ".hidden hk_own_stack_call\n"
    ".type hk_own_stack_call, " FUNCTION
    "hk_own_stack_call:\n"
    ".cfi_startproc\n" BODY
    ".cfi_endproc\n"
    ".size hk_own_stack_call, . - hk_own_stack_call\n"
    ".globl hk_own_stack_call_end\n"
    ".hidden hk_own_stack_call_end\n"
    "hk_own_stack_call_end:\n"
    ".popsection\n");

extern HK_HIDDEN const char hk_own_stack_call_end[];

bool hk_own_stack_is_caller(uintptr_t pc) {
  uintptr_t start = (uintptr_t)hk_own_stack_call;
  return pc - start < (uintptr_t)hk_own_stack_call_end - start;
}

/* A handler of the program may need more than this stack, and a garbage collector's handler stops the thread and scans
 * from its stack pointer to the end of its first stack. Under a filter that may kill, handlers may run here: nothing
 * tells whether it allows the call. */
static bool block_signals(uint64_t *before) {
  uint64_t mask = ~(HK_SIGNALS_OF_ITS_OWN | HK_SIGNALS_OF_THE_C_LIBRARY);
  return !hk_sandbox_may_kill() && hk_signal_mask_change(SIG_BLOCK, mask, before);
}

/* Below the stack lies an inaccessible page. */
bool hk_own_stack_run(void (*run)(void *context), void *context) {
  size_t guard_bytes = hk_os_page_size(), bytes = guard_bytes + STACK_BYTES;
  char *start = hk_os_reserve(bytes, guard_bytes);
  if (start == NULL) return false;
  (void)hk_syscall3(SYS_mprotect, (long)start, (long)guard_bytes, PROT_NONE);
  uint64_t before;
  bool is_blocked = block_signals(&before);
  hk_own_stack_call(run, context, start + bytes);
  if (is_blocked) hk_signal_mask_restore(before);
  (void)hk_os_unmap(start, bytes);
  return true;
}
