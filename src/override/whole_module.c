/* override/whole_module.c - L11. Says, in the shared libraries alone, that all code of the module is ours: around the archive's lies a
 * program's. */
#include "unwind/own_code.h"

#if HK_WEAK_RUNTIME

/* The linker's own names for the beginning of the module and the end of its code. */
extern HK_HIDDEN const char __ehdr_start[];
extern HK_HIDDEN const char etext[];

hk_own_code_t hk_own_code(void) { return (hk_own_code_t){(uintptr_t)__ehdr_start, (uintptr_t)etext}; }

#endif
