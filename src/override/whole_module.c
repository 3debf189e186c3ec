/* override/whole_module.c - L11. Tells the unwinder that all code of the module is hakmem's. In the shared libraries
 * alone: in an archive's program the program's code lies around it. */
#include "unwind/own_code.h"

#if HK_WEAK_RUNTIME

/* The linker's names for the start of the module and the end of its code. */
extern HK_HIDDEN const char __ehdr_start[];
extern HK_HIDDEN const char etext[];

hk_own_code_t hk_own_code(void) { return (hk_own_code_t){(uintptr_t)__ehdr_start, (uintptr_t)etext}; }

#endif
