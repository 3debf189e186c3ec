/* pprof/gzip.h - L7. A gzip file around bytes as they are: whoever keeps profiles expects gzip, and none of it says that it has to be
 * smaller. */
#ifndef HK_PPROF_GZIP_H
#define HK_PPROF_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

#define HK_GZIP_BLOCK_BYTES 1024

typedef struct {
  hk_output_t output; /* what is put here comes out at `to` */
  hk_output_t *to;
  uint32_t crc;
  uint32_t bytes; /* modulo 2^32, as the file has it */
  bool failed;
  size_t waiting;
  unsigned char block[HK_GZIP_BLOCK_BYTES];
} hk_gzip_t;

void hk_gzip_begin(hk_gzip_t *gzip, hk_output_t *to);
/* The file's end. False when `to` did not take all of it. */
bool hk_gzip_end(hk_gzip_t *gzip);

HK_C_END

#endif /* HK_PPROF_GZIP_H */
