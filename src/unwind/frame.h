/* unwind/frame.h - L6. One frame of a stack, and the step to its caller's. */
#ifndef HK_UNWIND_FRAME_H
#define HK_UNWIND_FRAME_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/memory_reader.h"
#include "unwind/module.h"
#include "unwind/stack_reader.h"

HK_C_BEGIN

/* Functions save half a dozen registers, and of those hardly one is ever counted from: what was saved is known by
 * its place, and read when it is wanted. */
typedef struct {
  uintptr_t pc;  /* inside the instruction that the frame is at: for a caller, the last byte of its call */
  uint8_t known; /* one bit a register: its value is the frame's */
  uint8_t
      is_placed; /* one bit a register, of those: `registers` has the address at which its value lies on the stack */
  bool
      is_stopped; /* between two instructions, by a signal or by hk_unwind itself: it may have nothing on the stack yet */
  uintptr_t registers[hk_frame_register_count];
} hk_frame_t;

/* What a step depends on, beside the tables: one bit a register in each. */
typedef struct {
  uint8_t used;  /* what the frame's end was counted from */
  uint8_t saved; /* registers of the caller that lie on the stack: all but the return address are placed in its frame */
  uint8_t changed;    /* those, and the ones that nobody knows any more */
  bool is_plain;      /* that is all */
  uintptr_t ra_place; /* where the return address lies, if it is one of `saved` */
} hk_frame_note_t;

static_assert(hk_frame_register_count <= 8, "one bit each");

/* What a walk reads. */
typedef struct {
  hk_stack_reader_t stack;
  hk_module_t module; /* of the frame before: most calls do not leave it */
  hk_memory_reader_t tables;
} hk_frame_source_t;

HK_INLINE void hk_frame_source_init(hk_frame_source_t *source, uintptr_t sp) {
  hk_stack_reader_init(&source->stack, sp);
  source->module = (hk_module_t){0, 0, 0};
}

/* The frame of who calls this. False at the stack's end, and where it cannot be told how it goes on: nothing is
 * known of `frame` then. */
bool hk_frame_step(hk_frame_t *frame, hk_frame_source_t *source);

/* The same, and what it depended on, where there was one. */
bool hk_frame_step_noting(hk_frame_t *frame, hk_frame_source_t *source, hk_frame_note_t *note);

HK_C_END

#endif /* HK_UNWIND_FRAME_H */
