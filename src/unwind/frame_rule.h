/* unwind/frame_rule.h - L6. The rule that leads from a frame of a stack to its caller's frame, for one address. It is a
 * row of an unwind table in 32 bytes, so that the rule cache can keep it. */
#ifndef HK_UNWIND_FRAME_RULE_H
#define HK_UNWIND_FRAME_RULE_H

#include <assert.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The registers that a walk follows: a frame's end may be counted from them. Unwind tables name them by DWARF's
 * numbers; all other code counts them from 0. */
enum {
  hk_frame_sp,
  hk_frame_fp,
  hk_frame_ra, /* the return address: a number without a register on x86-64, x30 on arm64 */
#if defined(__x86_64__)
  hk_frame_rbx,
  hk_frame_r12,
  hk_frame_r13,
  hk_frame_r14,
  hk_frame_r15,
#endif
  hk_frame_register_count,
  hk_frame_no_register = 0xff
};

/* Returns our number of DWARF's register; hk_frame_no_register when walks do not follow it. */
HK_INLINE unsigned hk_frame_register_of(uint64_t dwarf) {
  switch (dwarf) {
#if defined(__x86_64__)
    case 3:
      return hk_frame_rbx;
    case 6:
      return hk_frame_fp;
    case 7:
      return hk_frame_sp;
    case 12:
    case 13:
    case 14:
    case 15:
      return hk_frame_r12 + (unsigned)dwarf - 12;
    case 16:
      return hk_frame_ra;
#else
    case 29:
      return hk_frame_fp;
    case 30:
      return hk_frame_ra;
    case 31:
      return hk_frame_sp;
#endif
    default:
      return hk_frame_no_register;
  }
}

typedef enum {
  hk_frame_unknown, /* no table has the address */
  hk_frame_ruled,   /* the rule's other fields lead to the caller */
  hk_frame_signal,  /* the kernel's frame for a signal handler: all registers lie on the stack */
  hk_frame_last,    /* a thread begins here */
} hk_frame_kind_t;

/* Values of `saved` that are no distance. */
#define HK_SAVED_SAME INT16_MIN       /* not saved: the caller's value is the same */
#define HK_SAVED_LOST (INT16_MIN + 1) /* the caller's value is unknown */

/* The frame's end (DWARF's CFA: the caller's stack pointer) is register[base] + offset. With `is_in_memory` it is
 * the word at that address, + extra. */
typedef struct {
  uint8_t kind; /* hk_frame_kind_t */
  uint8_t base; /* hk_frame_no_register: the table counts from a register that walks do not follow */
  uint8_t is_in_memory;
  uint8_t from_base; /* one bit a register: its place is counted from register[base] instead of from the frame's end */
  int32_t offset;
  int32_t extra;
  int16_t saved[hk_frame_register_count]; /* each register's place, in words from the frame's end */
} hk_frame_rule_t;

static_assert(hk_frame_register_count <= 8, "one bit of from_base each");
static_assert(sizeof(hk_frame_rule_t) <= 32, "the rule cache has 4 words a rule");

HK_C_END

#endif /* HK_UNWIND_FRAME_RULE_H */
