/* unwind/module_map.c - L6. See module_map.h. */
#include "unwind/module_map.h"

#include <elf.h>
#include <string.h>

#include "base/text.h"
#include "os/copy_out.h"

/* ---- Lines: "start-end rwxp offset device inode   path" */

static const char *next_word(const char *text) {
  while (*text != ' ' && *text != '\0') text++;
  while (*text == ' ') text++;
  return text;
}

static bool read_mapping(hk_module_map_t *map) {
  hk_module_mapping_t *mapping = &map->mapping;
  uint64_t start, end, inode = 0;
  const char *text = hk_text_hex(map->line, &start);
  if (text == NULL || *text != '-' || (text = hk_text_hex(text + 1, &end)) == NULL) return false;
  text = next_word(text);
  bool has_rights = text[0] != '\0' && text[1] != '\0' && text[2] != '\0';
  mapping->is_readable = text[0] == 'r';
  mapping->is_writable = has_rights && text[1] == 'w';
  mapping->is_code = has_rights && text[2] == 'x';
  mapping->is_shared = has_rights && text[3] == 's';
  text = next_word(text);
  mapping->offset = 0;
  (void)hk_text_hex(text, &mapping->offset);
  text = next_word(next_word(text));
  (void)hk_text_number(text, &inode);
  mapping->inode = inode;
  mapping->path = next_word(text);
  mapping->start = start;
  mapping->end = end;
  if (mapping->offset == 0 && *mapping->path != '\0') {
    map->inode = inode;
    map->header = start;
  }
  mapping->header = *mapping->path != '\0' && map->inode == inode ? map->header : 0;
  return true;
}

bool hk_module_map_open(hk_module_map_t *map) {
  map->inode = 0;
  map->header = 0;
  return hk_kernel_file_open_own(&map->file, "maps");
}

bool hk_module_map_next(hk_module_map_t *map) {
  while (hk_kernel_file_line_start(&map->file, map->line)) {
    if (read_mapping(map)) return true;
  }
  return false;
}

void hk_module_map_close(const hk_module_map_t *map) { hk_kernel_file_close(&map->file); }

/* ---- Headers. */

#define SEGMENTS_MAX 64

typedef struct {
  uintptr_t base; /* an address in memory minus the one that the file has for it */
  unsigned count;
  uintptr_t segments;
} headers_t;

static bool read_segment(const headers_t *headers, unsigned index, Elf64_Phdr *segment) {
  return hk_os_copy_out(segment, headers->segments + index * sizeof *segment, sizeof *segment) == sizeof *segment;
}

static bool read_headers(uintptr_t header, headers_t *headers) {
  Elf64_Ehdr elf;
  Elf64_Phdr segment;
  if (header == 0 || hk_os_copy_out(&elf, header, sizeof elf) != sizeof elf) return false;
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) return false;
  if (elf.e_phentsize != sizeof(Elf64_Phdr)) return false;
  headers->count = elf.e_phnum < SEGMENTS_MAX ? elf.e_phnum : SEGMENTS_MAX;
  headers->segments = header + elf.e_phoff;
  for (unsigned i = 0; i < headers->count; i++) {
    if (!read_segment(headers, i, &segment)) return false;
    if (segment.p_type != PT_LOAD) continue;
    headers->base = header + segment.p_offset - segment.p_vaddr; /* the first loadable segment is the lowest */
    return true;
  }
  return false;
}

uintptr_t hk_module_unwind_index(uintptr_t header) {
  headers_t headers;
  Elf64_Phdr segment;
  if (!read_headers(header, &headers)) return 0;
  for (unsigned i = 0; i < headers.count && read_segment(&headers, i, &segment); i++) {
    if (segment.p_type == PT_GNU_EH_FRAME) return headers.base + segment.p_vaddr;
  }
  return 0;
}

uintptr_t hk_module_end(uintptr_t header) {
  headers_t headers;
  Elf64_Phdr segment;
  uintptr_t end = 0;
  if (!read_headers(header, &headers)) return 0;
  for (unsigned i = 0; i < headers.count && read_segment(&headers, i, &segment); i++) {
    if (segment.p_type == PT_LOAD) end = headers.base + segment.p_vaddr + segment.p_memsz;
  }
  return end;
}

#define BUILD_ID_BYTES_MAX ((HK_BUILD_ID_TEXT_BYTES - 1) / 2)

/* Copies the build ID from one segment of notes. Returns its length; 0 when there is none. */
static size_t copy_build_id(uintptr_t at, uintptr_t end, unsigned char *id) {
  enum { words = 4, name_bytes = 4, notes_max = 32 };
  for (unsigned i = 0; i < notes_max && at < end && end - at >= sizeof(Elf64_Nhdr); i++) {
    Elf64_Nhdr note;
    char name[name_bytes];
    if (hk_os_copy_out(&note, at, sizeof note) != sizeof note) return 0;
    uintptr_t name_at = at + sizeof note,
              id_at = name_at + (((uintptr_t)note.n_namesz + words - 1) & ~(uintptr_t)(words - 1));
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == name_bytes && note.n_descsz <= BUILD_ID_BYTES_MAX &&
        hk_os_copy_out(name, name_at, name_bytes) == name_bytes && memcmp(name, ELF_NOTE_GNU, name_bytes) == 0) {
      return hk_os_copy_out(id, id_at, note.n_descsz) == note.n_descsz ? note.n_descsz : 0;
    }
    at = id_at + (((uintptr_t)note.n_descsz + words - 1) & ~(uintptr_t)(words - 1));
  }
  return 0;
}

static size_t find_build_id(uintptr_t header, unsigned char *id) {
  headers_t headers;
  Elf64_Phdr segment;
  if (!read_headers(header, &headers)) return 0;
  for (unsigned i = 0; i < headers.count && read_segment(&headers, i, &segment); i++) {
    if (segment.p_type != PT_NOTE) continue;
    uintptr_t start = headers.base + segment.p_vaddr;
    size_t bytes = copy_build_id(start, start + segment.p_memsz, id);
    if (bytes > 0) return bytes;
  }
  return 0;
}

size_t hk_module_build_id(uintptr_t header, char *text) {
  static const char digits[] = "0123456789abcdef";
  unsigned char id[BUILD_ID_BYTES_MAX];
  size_t bytes = find_build_id(header, id), length = 0;
  for (size_t i = 0; i < bytes; i++) {
    text[length++] = digits[id[i] >> 4];
    text[length++] = digits[id[i] & 15];
  }
  text[length] = '\0';
  return length;
}
