/* pprof/gzip.h - L7. Makes a gzip file of bytes without compressing them. Tools that read profiles expect gzip, whose
 * format allows stored bytes. */
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
  hk_output_t output; /* the sender's; the file goes to `to` */
  hk_output_t *to;
  uint32_t crc;
  uint32_t bytes; /* modulo 2^32, as the file has it */
  bool failed;
  size_t waiting;
  unsigned char block[HK_GZIP_BLOCK_BYTES];
} hk_gzip_t;

void hk_gzip_begin(hk_gzip_t *gzip, hk_output_t *to);
/* Writes the file's end. Returns false when `to` did not take the whole file. */
bool hk_gzip_end(hk_gzip_t *gzip);

HK_C_END

#endif /* HK_PPROF_GZIP_H */
