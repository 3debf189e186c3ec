/* unwind/frame_rule.h - L6. How to get from a frame of a stack to its caller's: what an unwind table says of one address, made
 * so small that it can be kept (rule_cache). */
#ifndef HK_UNWIND_FRAME_RULE_H
#define HK_UNWIND_FRAME_RULE_H

#include <assert.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The registers that are followed: those that a frame's end may be counted from. Their names in unwind tables are
 * DWARF's numbers; everything else here counts them from 0. */
enum {
  hk_frame_sp,
  hk_frame_fp,
  hk_frame_ra, /* where the return address is looked for: a number without a register on x86-64, x30 on arm64 */
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

/* The number here of DWARF's register; hk_frame_no_register of one that is not followed. */
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
  hk_frame_unknown, /* no table knows the address */
  hk_frame_ruled,   /* as the rule says */
  hk_frame_signal,  /* the kernel's: all registers lie on the stack */
  hk_frame_last,    /* a thread begins here */
} hk_frame_kind_t;

/* Of a register, in the place of how many words from the frame's end it was saved. */
#define HK_SAVED_SAME INT16_MIN       /* not saved: the caller's is the same */
#define HK_SAVED_LOST (INT16_MIN + 1) /* nobody knows */

/* The frame's end (DWARF's CFA: the caller's stack pointer) is register[base] + offset, or the word that lies there, + extra. */
typedef struct {
  uint8_t kind;
  uint8_t base;         /* hk_frame_no_register: the table counts from something that is not followed */
  uint8_t is_in_memory; /* the word that lies there */
  uint8_t from_base; /* one bit a register: its place is counted from register[base] instead of from the frame's end */
  int32_t offset;
  int32_t extra;
  int16_t saved[hk_frame_register_count];
} hk_frame_rule_t;

static_assert(hk_frame_register_count <= 8, "one bit of from_base each");
static_assert(sizeof(hk_frame_rule_t) <= 32, "what the cache has room for");

HK_C_END

#endif /* HK_UNWIND_FRAME_RULE_H */
