/* unwind/place.h - L6. DWARF's expressions, as far as unwind tables use them: which place on the stack an expression means. They
 * are worked out before any register has a value, so that what comes of them can be kept. */
#ifndef HK_UNWIND_PLACE_H
#define HK_UNWIND_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/memory_reader.h"

HK_C_BEGIN

/* register[base] + offset, or the word that lies there, + extra. Without a base: the number `offset`. */
typedef struct {
  unsigned base; /* of unwind/frame_rule.h */
  bool is_in_memory;
  int64_t offset;
  int64_t extra;
} hk_place_t;

/* Reads an expression, with its length before it, for the address `pc`. False, with the reader behind it, when it means nothing of that form: that
 * of stubs that call other libraries, of functions that align their stack and of assembly that keeps the old stack pointer on it does. */
bool hk_place_read(hk_memory_reader_t *reader, uintptr_t pc, hk_place_t *place);

HK_C_END

#endif /* HK_UNWIND_PLACE_H */
