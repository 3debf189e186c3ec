/* os/stay_loaded.c - L1. See stay_loaded.h. */
#define _GNU_SOURCE 1

#include "os/stay_loaded.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "base/compiler.h"

/* A static program has neither function, and no object that could be closed. */
#pragma weak dladdr
#pragma weak dlsym

/* The linker's names for the headers of the object that it links. */
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((weak)) HK_HIDDEN;
extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((weak)) HK_HIDDEN;

static bool is_the_program(void) {
  return &own_header != NULL && getauxval(AT_PHDR) == (uintptr_t)&own_header + own_header.e_phoff;
}

/* Returns whether the object is linked with -z nodelete, as libhakmem.so is. */
static bool stays_anyway(void) {
  for (const ElfW(Dyn) *entry = own_dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE) != 0) return true;
  }
  return false;
}

typedef void *(*open_t)(const char *, int);

void hk_os_stay_loaded(void) {
  if (own_dynamic == NULL || dladdr == NULL || dlsym == NULL || is_the_program() || stays_anyway()) return;
  int saved_errno = errno;
  Dl_info own;
  /* By name: the linker warns of a direct call in every static program. */
  open_t open = __extension__(open_t) dlsym(RTLD_DEFAULT, "dlopen");
  if (open != NULL && dladdr(own_dynamic, &own) != 0) {
    (void)open(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  errno = saved_errno;
}
