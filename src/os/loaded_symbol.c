/* os/loaded_symbol.c - L1. See loaded_symbol.h. Calls no function of the C library: the first allocation of a process
 * may come before the dynamic linker has relocated the library. */
#include "os/loaded_symbol.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* An object's dynamic symbols, and the GNU hash table that leads to them. */
typedef struct {
  uintptr_t base; /* added to an address in the file */
  uintptr_t start, end;
  const Elf64_Dyn *dynamic;
  const Elf64_Sym *symbols;
  const char *names;
  const uint32_t *hash; /* NULL: there is none */
} object_t;

static bool find_segments(uintptr_t header, object_t *object) {
  const Elf64_Ehdr *elf = (const Elf64_Ehdr *)header;
  const Elf64_Phdr *segment = (const Elf64_Phdr *)(header + elf->e_phoff);
  const Elf64_Phdr *dynamic = NULL;
  for (unsigned i = 0; i < elf->e_phnum; i++) {
    if (segment[i].p_type == PT_DYNAMIC) dynamic = &segment[i];
    if (segment[i].p_type != PT_LOAD) continue;
    if (object->start == 0) object->base = header + segment[i].p_offset - segment[i].p_vaddr;
    object->start = header;
    object->end = object->base + segment[i].p_vaddr + segment[i].p_memsz;
  }
  if (object->start == 0 || dynamic == NULL) return false;
  object->dynamic = (const Elf64_Dyn *)(object->base + dynamic->p_vaddr);
  return true;
}

/* Returns the address of a table. The dynamic linker has relocated most of these addresses in libraries; in the vDSO
 * they are as in the file. */
static const void *place(const object_t *object, uintptr_t address) {
  bool is_relocated = address - object->start < object->end - object->start;
  return (const void *)(is_relocated ? address : object->base + address);
}

static bool find_tables(object_t *object) {
  for (const Elf64_Dyn *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB) object->symbols = place(object, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) object->names = place(object, entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) object->hash = place(object, entry->d_un.d_ptr);
  }
  return object->symbols != NULL && object->names != NULL;
}

/* The hash of DT_GNU_HASH, which D. Bernstein used first: the table has these very numbers. */
static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

static bool equals(const char *a, const char *b) {
  for (; *a != '\0' && *a == *b; a++) b++;
  return *a == *b;
}

static bool is_function(const object_t *object, const Elf64_Sym *symbol, const char *name) {
  return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
         equals(object->names + symbol->st_name, name);
}

/* Looks the name up in the GNU hash table: four numbers, a filter of 64-bit words, the first symbol of each bucket, and
 * the hash of each symbol. The lowest bit of a hash marks the end of a bucket. */
static uintptr_t look_up(const object_t *object, const char *name) {
  const uint32_t bucket_count = object->hash[0], first_symbol = object->hash[1], filter_words = object->hash[2];
  const uint32_t *buckets = object->hash + 4 + (size_t)filter_words * 2, *hashes = buckets + bucket_count;
  if (bucket_count == 0) return 0;
  uint32_t hash = hash_of(name), index = buckets[hash % bucket_count];
  if (index < first_symbol) return 0;
  for (;; index++) {
    uint32_t found = hashes[index - first_symbol];
    const Elf64_Sym *symbol = &object->symbols[index];
    if ((found | 1) == (hash | 1) && is_function(object, symbol, name)) return object->base + symbol->st_value;
    if ((found & 1) != 0) return 0;
  }
}

/* Scans all symbols, for the vDSOs of kernels that have no GNU hash table there. The names begin where the symbols
 * end. */
static uintptr_t scan(const object_t *object, const char *name) {
  for (const Elf64_Sym *symbol = object->symbols; (uintptr_t)(symbol + 1) <= (uintptr_t)object->names; symbol++) {
    if (is_function(object, symbol, name)) return object->base + symbol->st_value;
  }
  return 0;
}

uintptr_t hk_loaded_symbol_find(uintptr_t header, const char *name) {
  object_t object = {.base = 0};
  if (header == 0 || !find_segments(header, &object) || !find_tables(&object)) return 0;
  return object.hash != NULL ? look_up(&object, name) : scan(&object, name);
}
