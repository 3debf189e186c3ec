/* unwind/module.h - L6. Finds the loaded module of an address, and the index of the module's unwind tables. */
#ifndef HK_UNWIND_MODULE_H
#define HK_UNWIND_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

typedef struct {
  uintptr_t start; /* of the module, or of its one mapping of code with `pc` */
  uintptr_t end;
  uintptr_t index; /* 0: it has no unwind tables */
} hk_module_t;

/* Returns false when no module is known. Takes no lock and never waits. The dynamic linker answers (_dl_find_object, in
 * glibc from 2.35 on). Without it a list of our own does, which is renewed at most once a second. */
bool hk_module_find(uintptr_t pc, hk_module_t *module);

/* hk_module_find that looks in the list alone. */
bool hk_module_find_listed(uintptr_t pc, hk_module_t *module);

HK_C_END

#endif /* HK_UNWIND_MODULE_H */
