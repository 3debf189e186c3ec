/* os/growing_file.h - L1. A new file that grows piece by piece while the program runs. Bare system calls: no
 * allocation, no signal, errno stays. */
#ifndef HK_OS_GROWING_FILE_H
#define HK_OS_GROWING_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/kept_file.h"

HK_C_BEGIN

/* Two ranges of bytes that are written one behind the other; the second may be empty. */
typedef struct {
  const void *head;
  size_t head_bytes;
  const void *body;
  size_t body_bytes;
} hk_file_piece_t;

/* Creates the file, readable by its owner alone, with this piece at its beginning. Returns 0 or the error number; on
 * failure no file is left behind. An existing file of that name is an error. */
int hk_growing_file_open(hk_kept_file_t *file, const char *path, const hk_file_piece_t *first);

/* Writes a piece at its place, all of it or nothing; writing the same bytes there twice is harmless. Returns 0 or the
 * error number: EBADF when the program has closed the descriptor, even when another file has its number now. */
int hk_growing_file_write(const hk_kept_file_t *file, uint64_t at, const hk_file_piece_t *piece);

HK_C_END

#endif /* HK_OS_GROWING_FILE_H */
