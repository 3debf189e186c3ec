/* unwind/place.h - L6. DWARF's expressions, as far as unwind tables use them: each is reduced to a place on the
 * stack. The place names a register instead of using its value, so that a rule with it can be kept. */
#ifndef HK_UNWIND_PLACE_H
#define HK_UNWIND_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/memory_reader.h"

HK_C_BEGIN

/* The address register[base] + offset; with `is_in_memory`, the word at that address, + extra. With the base
 * hk_frame_no_register: the number `offset`. */
typedef struct {
  unsigned base; /* a register of unwind/frame_rule.h */
  bool is_in_memory;
  int64_t offset;
  int64_t extra;
} hk_place_t;

/* Reads a length and an expression of that many bytes, for the address `pc`. Leaves the reader behind the expression.
 * Returns false when the expression has no such form, and false with a failed reader when it is damaged. Three kinds of
 * code have expressions of this form: stubs that call other libraries, functions that align their stack, and assembly
 * that keeps the old stack pointer on the stack. */
bool hk_place_read(hk_memory_reader_t *reader, uintptr_t pc, hk_place_t *place);

HK_C_END

#endif /* HK_UNWIND_PLACE_H */
