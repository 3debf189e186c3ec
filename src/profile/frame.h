/* profile/frame.h - L5. One frame of a stack, and the step to its caller's. */
#ifndef HK_PROFILE_FRAME_H
#define HK_PROFILE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "profile/frame_rule.h"
#include "profile/stack_reader.h"

HK_C_BEGIN

typedef struct {
  uintptr_t pc;   /* inside the instruction that the frame is at: for a caller, the last byte of its call */
  uint32_t known; /* one bit a register: its value is the frame's */
  bool
      is_stopped; /* between two instructions, by a signal or by hk_unwind itself: it may have nothing on the stack yet */
  uintptr_t registers[hk_frame_register_count];
} hk_frame_t;

/* What a step depends on, beside the tables: one bit a register in each. */
typedef struct {
  uint32_t used;                           /* what the frame's end was counted from */
  uint32_t read;                           /* registers of the caller that were read from the stack */
  uint32_t changed;                        /* those, and the ones that nobody knows any more */
  bool is_plain;                           /* that is all */
  uintptr_t from[hk_frame_register_count]; /* where each of `read` was */
} hk_frame_note_t;

/* The frame of who calls this. False at the stack's end, and where it cannot be told how it goes on. */
bool hk_frame_step(hk_frame_t *frame, hk_stack_reader_t *stack);

/* The same, and what it depended on, where there was one. */
bool hk_frame_step_noting(hk_frame_t *frame, hk_stack_reader_t *stack, hk_frame_note_t *note);

HK_C_END

#endif /* HK_PROFILE_FRAME_H */
