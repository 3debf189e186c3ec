/* unwind/module.h - L6. Which loaded module an address belongs to, and where the index of its unwind tables is. */
#ifndef HK_UNWIND_MODULE_H
#define HK_UNWIND_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct {
  uintptr_t start;
  uintptr_t end;
  uintptr_t index; /* 0: it has no unwind tables */
} hk_module_t;

/* False where no module is known. Takes no lock and waits for nobody: the dynamic linker answers (_dl_find_object, glibc from
 * 2.35 on), or a list of our own that is made anew now and then. */
bool hk_module_find(uintptr_t pc, hk_module_t *module);

/* The second way alone. */
bool hk_module_find_listed(uintptr_t pc, hk_module_t *module);

HK_C_END

#endif /* HK_UNWIND_MODULE_H */
