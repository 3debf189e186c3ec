/* unwind/own_code.h - L6. Which of a stack's frames are our own: a stack shall begin where the program calls. */
#ifndef HK_UNWIND_OWN_CODE_H
#define HK_UNWIND_OWN_CODE_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct {
  uintptr_t start;
  uintptr_t end;
} hk_own_code_t;

/* The code of the module, where all of it is ours: in the shared libraries, which have an answer of their own in the
 * place of this one (override/whole_module.c). A program that is linked with the archive has our code among its own,
 * and nobody can tell where that begins: nothing. */
HK_HIDDEN hk_own_code_t hk_own_code(void);

/* How many of the frames, which are return addresses and the innermost first, are to be left out: those before the
 * first one that is not ours, however many the compiler made of our functions. 0 where that cannot be told. */
unsigned hk_own_code_count(const uintptr_t *frames, unsigned count);

HK_C_END

#endif /* HK_UNWIND_OWN_CODE_H */
