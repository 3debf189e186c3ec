/* unwind/own_code.c - L6. See own_code.h. */
#include "unwind/own_code.h"

__attribute__((weak)) hk_own_code_t hk_own_code(void) { return (hk_own_code_t){0, 0}; }

unsigned hk_own_code_count(const uintptr_t *frames, unsigned count) {
  hk_own_code_t code = hk_own_code();
  unsigned own = 0;
  while (own < count && frames[own] > code.start && frames[own] <= code.end) own++;
  return own;
}
