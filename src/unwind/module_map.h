/* unwind/module_map.h - L6. Reads the process's mappings (`maps` in /proc), and the headers of mapped ELF files. */
#ifndef HK_UNWIND_MODULE_MAP_H
#define HK_UNWIND_MODULE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/kernel_file.h"

HK_C_BEGIN

/* One mapping. `header` is the address at which the file's first byte is mapped: `start`, or the start of an
 * earlier mapping; 0: it is not mapped. */
typedef struct {
  uintptr_t start;
  uintptr_t end;
  uint64_t offset; /* in the file */
  bool is_code;
  bool is_readable;
  bool is_writable;
  bool is_shared;
  uint64_t inode; /* of the file; 0: there is no file */
  uintptr_t header;
  const char *path; /* in `line`; empty: there is no file. Long ones lack their end. "[vdso]" is no path */
} hk_module_mapping_t;

typedef struct {
  hk_kernel_file_t file;
  hk_module_mapping_t mapping;
  uint64_t inode; /* of the last file whose header was seen */
  uintptr_t header;
  char line[HK_KERNEL_LINE_BYTES];
} hk_module_map_t;

/* Returns false when the system refuses the file. */
bool hk_module_map_open(hk_module_map_t *map);
/* Reads the next mapping, lowest first, into `map->mapping`. Returns false when there is none. */
bool hk_module_map_next(hk_module_map_t *map);
void hk_module_map_close(const hk_module_map_t *map);

/* Returns where the index of the unwind tables (.eh_frame_hdr) is, of the ELF file whose header is at `header`; 0
 * when it has none or is no ELF file. */
uintptr_t hk_module_unwind_index(uintptr_t header);

/* Returns where the file's last loadable segment ends in memory; 0 when it is no ELF file. */
uintptr_t hk_module_end(uintptr_t header);

/* Room for a build ID as text, with the zero byte. */
#define HK_BUILD_ID_TEXT_BYTES (2 * 32 + 1)

/* Writes the file's build ID to `text`, as hexadecimal digits. Returns their number; 0, with an empty text, when there
 * is none or no room for it. */
size_t hk_module_build_id(uintptr_t header, char *text);

HK_C_END

#endif /* HK_UNWIND_MODULE_MAP_H */
