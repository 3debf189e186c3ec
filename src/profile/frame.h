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

/* The frame of who calls this. False at the stack's end, and where it cannot be told how it goes on. */
bool hk_frame_step(hk_frame_t *frame, hk_stack_reader_t *stack);

HK_C_END

#endif /* HK_PROFILE_FRAME_H */
