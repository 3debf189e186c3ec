/* A region at a fixed address, with unmapped memory before and behind it, for tables with addresses in them. */
#ifndef HK_TESTS_FUZZ_FAR_MEMORY_H
#define HK_TESTS_FUZZ_FAR_MEMORY_H

#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"

#define FAR_START UINT64_C(0x20000000)
#define FAR_BYTES ((size_t)1 << 16)

/* Copies the bytes to the region's end, behind zeros. Returns their address. */
static inline uintptr_t far_memory_put(const uint8_t *data, size_t size) {
  static unsigned char *region;
  static size_t before;
  if (region == NULL) {
    void *wanted = (void *)FAR_START;
    region = mmap(wanted, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    FUZZ_CHECK(region == wanted);
  }
  FUZZ_CHECK(size <= FAR_BYTES);
  if (before > size) memset(region + FAR_BYTES - before, 0, before - size);
  if (size > 0) memcpy(region + FAR_BYTES - size, data, size);
  before = size;
  return FAR_START + FAR_BYTES - size;
}

#endif /* HK_TESTS_FUZZ_FAR_MEMORY_H */
