/* pprof/gzip.c - L7. See gzip.h. A stored block has a byte that marks the last block, the length, the length's
 * complement, and the bytes. */
#include "pprof/gzip.h"

#include <string.h>

#include "base/bytes.h"

#define BLOCK_HEAD_BYTES 5

static void put_through(hk_gzip_t *gzip, const void *bytes, size_t count) {
  if (!gzip->failed && count > 0 && !gzip->to->put(gzip->to, bytes, count)) gzip->failed = true;
}

static void put_block(hk_gzip_t *gzip, bool is_last) {
  unsigned char head[BLOCK_HEAD_BYTES];
  head[0] = is_last;
  hk_bytes_put(head + 1, gzip->waiting, 2);
  hk_bytes_put(head + 3, ~(uint64_t)gzip->waiting, 2);
  put_through(gzip, head, sizeof head);
  put_through(gzip, gzip->block, gzip->waiting);
  gzip->crc = hk_bytes_crc32(gzip->crc, gzip->block, gzip->waiting);
  gzip->bytes += (uint32_t)gzip->waiting;
  gzip->waiting = 0;
}

static bool put(hk_output_t *output, const void *bytes, size_t count) {
  hk_gzip_t *gzip = HK_CONTAINER_OF(output, hk_gzip_t, output);
  const unsigned char *from = bytes;
  while (count > 0 && !gzip->failed) {
    if (gzip->waiting == sizeof(gzip->block)) put_block(gzip, false);
    size_t room = sizeof(gzip->block) - gzip->waiting, here = count < room ? count : room;
    memcpy(gzip->block + gzip->waiting, from, here);
    gzip->waiting += here;
    from += here;
    count -= here;
  }
  return !gzip->failed;
}

void hk_gzip_begin(hk_gzip_t *gzip, hk_output_t *to) {
  /* Magic, deflate, no flags, no time, no hint, unknown system. */
  static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
  gzip->output.put = put;
  gzip->to = to;
  gzip->crc = 0;
  gzip->bytes = 0;
  gzip->failed = false;
  gzip->waiting = 0;
  put_through(gzip, head, sizeof head);
}

bool hk_gzip_end(hk_gzip_t *gzip) {
  unsigned char tail[8];
  put_block(gzip, true);
  hk_bytes_put(tail, gzip->crc, 4);
  hk_bytes_put(tail + 4, gzip->bytes, 4);
  put_through(gzip, tail, sizeof tail);
  return !gzip->failed;
}
