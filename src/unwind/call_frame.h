/* unwind/call_frame.h - L6. Unwind tables' instructions (DWARF's call frame information): what they say of one address. */
#ifndef HK_UNWIND_CALL_FRAME_H
#define HK_UNWIND_CALL_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame_rule.h"
#include "unwind/memory_reader.h"

HK_C_BEGIN

/* A range of instructions. */
typedef struct {
  uintptr_t start;
  uintptr_t end;
} hk_call_frame_code_t;

/* What a function's instructions start from. */
typedef struct {
  hk_call_frame_code_t common;   /* of many functions together */
  hk_call_frame_code_t function; /* behind them */
  uintptr_t start;               /* the function's first address */
  uint64_t code_align;
  int64_t data_align;
  unsigned pointer_encoding;
  bool has_announced; /* the function's entry says how long its other contents are */
} hk_call_frame_t;

/* The rule for the address `pc` of the function. False when the instructions are damaged or not understood. */
bool hk_call_frame_rule(hk_memory_reader_t *reader, const hk_call_frame_t *frame, uintptr_t pc, hk_frame_rule_t *rule);

HK_C_END

#endif /* HK_UNWIND_CALL_FRAME_H */
