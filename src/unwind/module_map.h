/* unwind/module_map.h - L6. The process's mappings of files (/proc/self/maps), and what the headers of the files say in memory. */
#ifndef HK_UNWIND_MODULE_MAP_H
#define HK_UNWIND_MODULE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/kernel_file.h"

HK_C_BEGIN

/* One mapping. `header` is where the file's beginning is mapped, which is at `start` or in a mapping before; 0: it is not. */
typedef struct {
  uintptr_t start;
  uintptr_t end;
  uint64_t offset; /* in the file */
  bool is_code;
  bool is_readable;
  bool is_writable;
  bool is_shared;
  uint64_t inode; /* of the file; 0: of none */
  uintptr_t header;
  const char *path; /* in `line`; empty: of no file. "[vdso]" and the like are not paths */
} hk_module_mapping_t;

typedef struct {
  hk_kernel_file_t file;
  hk_module_mapping_t mapping;
  uint64_t inode; /* of the file whose header was seen last */
  uintptr_t header;
  char line[HK_KERNEL_LINE_BYTES];
} hk_module_map_t;

bool hk_module_map_open(hk_module_map_t *map);
/* The next mapping, lowest first; false when there is none. It is in `map->mapping` until the next call. */
bool hk_module_map_next(hk_module_map_t *map);
void hk_module_map_close(const hk_module_map_t *map);

/* The index of the unwind tables of the ELF file whose header is there (.eh_frame_hdr). 0: it has none, or is none. */
uintptr_t hk_module_unwind_index(uintptr_t header);

/* Where its last segment ends in memory; 0: it is no ELF file. */
uintptr_t hk_module_end(uintptr_t header);

#define HK_BUILD_ID_BYTES_MAX 32

/* Its build ID: how many bytes; 0: it has none. */
size_t hk_module_build_id(uintptr_t header, unsigned char *id);

HK_C_END

#endif /* HK_UNWIND_MODULE_MAP_H */
