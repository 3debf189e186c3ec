/* unwind/frame.h - L6. One frame of a stack, and the step to its caller's frame.
 *
 * A function saves about six registers, and hardly any of them is ever counted from. So a frame has the address at
 * which a saved register lies, and a walk reads the value when it needs it. */
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

typedef struct {
  uintptr_t pc;  /* inside the instruction that the frame is at: for a caller, the last byte of its call */
  uint8_t known; /* one bit a register: its value in this frame is known */
  /* One bit a known register: `registers` has the address at which the value lies on the stack. */
  uint8_t is_placed;
  /* A signal, or the start of the walk, has stopped the frame between two instructions: it may have nothing on the
   * stack yet. */
  bool is_stopped;
  uintptr_t registers[hk_frame_register_count];
} hk_frame_t;

/* What a step depends on, beside the tables. Masks have one bit a register. */
typedef struct {
  uint8_t used;  /* the register that the frame's end was counted from */
  uint8_t saved; /* the caller's registers that lie on the stack; all but the return address are placed in its frame */
  uint8_t changed;    /* those of `saved`, the stack pointer, and registers whose value is lost */
  bool is_plain;      /* the step depends on nothing else */
  uintptr_t ra_place; /* where the return address lies, if `saved` has it */
} hk_frame_note_t;

static_assert(hk_frame_register_count <= 8, "one bit each");

/* The memory that a walk reads. */
typedef struct {
  hk_stack_reader_t stack;
  hk_module_t module; /* of the last frame: most calls stay in their module */
  hk_memory_reader_t tables;
} hk_frame_source_t;

HK_INLINE void hk_frame_source_init(hk_frame_source_t *source, uintptr_t sp) {
  hk_stack_reader_init(&source->stack, sp);
  source->module = (hk_module_t){0, 0, 0};
}

/* Turns `frame` into its caller's. Returns false at the stack's end, or when the caller cannot be found; `frame` is
 * undefined then. */
bool hk_frame_step(hk_frame_t *frame, hk_frame_source_t *source);

/* hk_frame_step that sets `*note` to what the step depended on, if it succeeds. */
bool hk_frame_step_noting(hk_frame_t *frame, hk_frame_source_t *source, hk_frame_note_t *note);

HK_C_END

#endif /* HK_UNWIND_FRAME_H */
