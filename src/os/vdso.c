/* os/vdso.c - L1. See vdso.h. Reads the object's symbol table itself: the C library keeps what it found to itself, and
 * its clock_gettime may be somebody's who interposes it and allocates. */
#include "os/vdso.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)
#define CLOCK_SYMBOL "__vdso_clock_gettime"
#define GETCPU_SYMBOL "__vdso_getcpu"
#else
#define CLOCK_SYMBOL "__kernel_clock_gettime"
#define GETCPU_SYMBOL "__kernel_getcpu"
#endif

/* What of the object is looked at. Addresses in it are relative to where it was loaded. */
typedef struct {
  uintptr_t base; /* add this to an address of the object */
  const Elf64_Dyn *dynamic;
  const Elf64_Sym *symbols;
  const char *names;
} object_t;

static bool find_segments(uintptr_t header, object_t *object) {
  const Elf64_Ehdr *elf = (const Elf64_Ehdr *)header;
  const Elf64_Phdr *segment = (const Elf64_Phdr *)(header + elf->e_phoff);
  bool is_loaded = false;
  for (unsigned i = 0; i < elf->e_phnum; i++) {
    if (segment[i].p_type == PT_LOAD && !is_loaded) {
      object->base = header + segment[i].p_offset - segment[i].p_vaddr;
      is_loaded = true;
    }
    if (segment[i].p_type == PT_DYNAMIC) object->dynamic = (const Elf64_Dyn *)(header + segment[i].p_offset);
  }
  return is_loaded && object->dynamic != NULL;
}

static bool find_tables(object_t *object) {
  for (const Elf64_Dyn *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB) object->symbols = (const Elf64_Sym *)(object->base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) object->names = (const char *)(object->base + entry->d_un.d_ptr);
  }
  /* The kernel's linker scripts put the names right behind the symbols, which is how many there are. */
  return object->symbols != NULL && (uintptr_t)object->names > (uintptr_t)object->symbols;
}

static bool equals(const char *a, const char *b) {
  for (; *a != '\0' && *a == *b; a++) b++;
  return *a == *b;
}

/* The address of the symbol; 0 when the object has none of that name. */
static uintptr_t find(uintptr_t header, const char *name) {
  object_t object = {.base = 0};
  if (header == 0 || !find_segments(header, &object) || !find_tables(&object)) return 0;
  for (const Elf64_Sym *symbol = object.symbols; (uintptr_t)(symbol + 1) <= (uintptr_t)object.names; symbol++) {
    if (symbol->st_shndx == SHN_UNDEF || !equals(object.names + symbol->st_name, name)) continue;
    return object.base + symbol->st_value;
  }
  return 0;
}

hk_vdso_clock_t *hk_vdso_find_clock(uintptr_t header) { return (hk_vdso_clock_t *)find(header, CLOCK_SYMBOL); }

hk_vdso_getcpu_t *hk_vdso_find_getcpu(uintptr_t header) { return (hk_vdso_getcpu_t *)find(header, GETCPU_SYMBOL); }
