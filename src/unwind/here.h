/* unwind/here.h - L6. The frame at which a walk begins. */
#ifndef HK_UNWIND_HERE_H
#define HK_UNWIND_HERE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame.h"

/* Stores the registers and the address of this place. One asm statement does, so that one row of our own unwind table
 * fits all values. */
HK_INLINE void hk_frame_here(hk_frame_t *frame) {
  uintptr_t *values = frame->registers;
#if defined(__x86_64__)
  uintptr_t here;
  __asm__ volatile(
      "movq %%rsp, 0(%1)\n\t"
      "movq %%rbp, 8(%1)\n\t"
      "movq %%rbx, 24(%1)\n\t"
      "movq %%r12, 32(%1)\n\t"
      "movq %%r13, 40(%1)\n\t"
      "movq %%r14, 48(%1)\n\t"
      "movq %%r15, 56(%1)\n\t"
      "leaq 0(%%rip), %0"
      : "=a"(here)
      : "r"(values)
      : "memory");
  static_assert(hk_frame_sp == 0 && hk_frame_fp == 1 && hk_frame_rbx == 3 && hk_frame_r15 == 7, "the offsets above");
#else
  uintptr_t here, sp;
  __asm__ volatile(
      "mov %1, sp\n\t"
      "str %1, [%2]\n\t"
      "str x29, [%2, #8]\n\t"
      "str x30, [%2, #16]\n\t"
      "adr %0, ."
      : "=&r"(here), "=&r"(sp)
      : "r"(values)
      : "memory");
  static_assert(hk_frame_sp == 0 && hk_frame_fp == 1 && hk_frame_ra == 2, "the offsets above");
#endif
  frame->pc = here;
  frame->known = (uint8_t)((1u << hk_frame_register_count) - 1);
#if defined(__x86_64__)
  frame->known &= (uint8_t) ~(1u << hk_frame_ra);
#endif
  frame->is_placed = 0;
  frame->is_stopped = true;
}

#endif /* HK_UNWIND_HERE_H */
