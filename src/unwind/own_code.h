/* unwind/own_code.h - L6. Finds the frames of a stack that are hakmem's own, so that a site begins in the program. */
#ifndef HK_UNWIND_OWN_CODE_H
#define HK_UNWIND_OWN_CODE_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct {
  uintptr_t start;
  uintptr_t end;
} hk_own_code_t;

/* Returns the module's code when all of it is hakmem's. The shared libraries define it so (override/whole_module.c).
 * The weak definition returns an empty range: in a program linked with the archive, hakmem's code lies among the
 * program's. */
HK_HIDDEN hk_own_code_t hk_own_code(void);

/* Returns how many of the innermost frames are hakmem's own: inlining changes their number. Returns 0 when hk_own_code
 * returns an empty range. `frames` are return addresses, the innermost first. */
unsigned hk_own_code_count(const uintptr_t *frames, unsigned count);

HK_C_END

#endif /* HK_UNWIND_OWN_CODE_H */
