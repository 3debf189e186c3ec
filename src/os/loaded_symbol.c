/* os/loaded_symbol.c - L1. See loaded_symbol.h. */
#include "os/loaded_symbol.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What is looked at of a library: its symbols, and the GNU hash table that leads to them. */
typedef struct {
  uintptr_t base; /* add this to an address in the file */
  const Elf64_Dyn *dynamic;
  const Elf64_Sym *symbols;
  const char *names;
  const uint32_t *hash;
} library_t;

static bool find_segments(uintptr_t header, library_t *library) {
  const Elf64_Ehdr *elf = (const Elf64_Ehdr *)header;
  const Elf64_Phdr *segment = (const Elf64_Phdr *)(header + elf->e_phoff);
  bool is_loaded = false;
  for (unsigned i = 0; i < elf->e_phnum && !is_loaded; i++) {
    if (segment[i].p_type != PT_LOAD) continue;
    library->base = header + segment[i].p_offset - segment[i].p_vaddr;
    is_loaded = true;
  }
  for (unsigned i = 0; i < elf->e_phnum; i++) {
    if (segment[i].p_type == PT_DYNAMIC) library->dynamic = (const Elf64_Dyn *)(library->base + segment[i].p_vaddr);
  }
  return is_loaded && library->dynamic != NULL;
}

/* The dynamic linker has made addresses of most of these, and leaves the vDSO's as they are. */
static const void *place(const library_t *library, uintptr_t address) {
  return (const void *)(address < library->base ? library->base + address : address);
}

static bool find_tables(library_t *library) {
  for (const Elf64_Dyn *entry = library->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB) library->symbols = place(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) library->names = place(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) library->hash = place(library, entry->d_un.d_ptr);
  }
  return library->symbols != NULL && library->names != NULL && library->hash != NULL;
}

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

static bool is_function(const library_t *library, const Elf64_Sym *symbol, const char *name) {
  return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
         strcmp(library->names + symbol->st_name, name) == 0;
}

/* The table: four numbers, a filter of 64-bit words, for each bucket its first symbol, and each symbol's hash, whose lowest
 * bit ends a bucket. */
static uintptr_t look_up(const library_t *library, const char *name) {
  const uint32_t bucket_count = library->hash[0], first_symbol = library->hash[1], filter_words = library->hash[2];
  const uint32_t *buckets = library->hash + 4 + (size_t)filter_words * 2, *hashes = buckets + bucket_count;
  if (bucket_count == 0) return 0;
  uint32_t hash = hash_of(name), index = buckets[hash % bucket_count];
  if (index < first_symbol) return 0;
  for (;; index++) {
    uint32_t found = hashes[index - first_symbol];
    const Elf64_Sym *symbol = &library->symbols[index];
    if ((found | 1) == (hash | 1) && is_function(library, symbol, name)) return library->base + symbol->st_value;
    if ((found & 1) != 0) return 0;
  }
}

uintptr_t hk_loaded_symbol_find(uintptr_t header, const char *name) {
  library_t library = {.base = 0};
  return find_segments(header, &library) && find_tables(&library) ? look_up(&library, name) : 0;
}
