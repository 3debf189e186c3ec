/* os/loaded_symbol.h - L1. Functions of a loaded object (a library, the vDSO), by its own tables: the C library's dlsym
 * may be interposed, depends on its caller, and does not know the vDSO. */
#ifndef HK_OS_LOADED_SYMBOL_H
#define HK_OS_LOADED_SYMBOL_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the address of the function that the object exports by this name, whatever its version; 0 when there is none.
 * `header` is where the object's ELF header is mapped; 0: there is no object. */
uintptr_t hk_loaded_symbol_find(uintptr_t header, const char *name);

HK_C_END

#endif /* HK_OS_LOADED_SYMBOL_H */
