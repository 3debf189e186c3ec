/* os/loaded_symbol.h - L1. Finds functions of a loaded object (a library, the vDSO) by the object's own tables. The C
 * library's dlsym may be interposed, depends on its caller, and does not cover the vDSO. */
#ifndef HK_OS_LOADED_SYMBOL_H
#define HK_OS_LOADED_SYMBOL_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the address of the function that the object exports by this name, in any version; 0 when there is none.
 * `header` is the address of the object's ELF header, or 0 for no object. */
uintptr_t hk_loaded_symbol_find(uintptr_t header, const char *name);

HK_C_END

#endif /* HK_OS_LOADED_SYMBOL_H */
