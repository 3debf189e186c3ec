/* unwind/call_frame.h - L6. Runs the instructions of unwind tables (DWARF's call frame information) for one address. */
#ifndef HK_UNWIND_CALL_FRAME_H
#define HK_UNWIND_CALL_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/memory_reader.h"

HK_C_BEGIN

/* The addresses of some instructions. */
typedef struct {
  uintptr_t start;
  uintptr_t end;
} hk_call_frame_code_t;

/* A function's instructions, and how to read them. */
typedef struct {
  hk_call_frame_code_t common;   /* shared by many functions; run first */
  hk_call_frame_code_t function; /* the function's own; run next */
  uintptr_t start;               /* the function's first address */
  uint64_t code_align;
  int64_t data_align;
  unsigned pointer_encoding;
  bool has_announced; /* the function's entry has augmentation data, with its length before it */
} hk_call_frame_t;

/* Computes the rule for the address `pc` of the function. Returns false when the instructions are damaged or
 * unknown, or when they count the frame's end from a register that walks do not follow. */
bool hk_call_frame_rule(hk_memory_reader_t *reader, const hk_call_frame_t *frame, uintptr_t pc, hk_frame_rule_t *rule);

HK_C_END

#endif /* HK_UNWIND_CALL_FRAME_H */
