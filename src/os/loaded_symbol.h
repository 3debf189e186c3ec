/* os/loaded_symbol.h - L1. Functions of a library that is loaded, by its own tables: the C library's dlsym may be
 * interposed, and depends on its caller. */
#ifndef HK_OS_LOADED_SYMBOL_H
#define HK_OS_LOADED_SYMBOL_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The address of the function that the library exports by this name, whatever its version; 0 when there is none.
 * `header`: where the library's ELF header is mapped. */
uintptr_t hk_loaded_symbol_find(uintptr_t header, const char *name);

HK_C_END

#endif /* HK_OS_LOADED_SYMBOL_H */
