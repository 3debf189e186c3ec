/* profile/far_bytes.h - L5. Reading numbers, one after the other, from memory that may be damaged or go away: by copies, a
 * window at a time. What cannot be read makes the reader failed, and reads as 0. */
#ifndef HK_PROFILE_FAR_BYTES_H
#define HK_PROFILE_FAR_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* A copy is a system call, of which so many bytes are a small part. */
#define HK_FAR_WINDOW_BYTES 512

typedef struct {
  uintptr_t start;
  size_t count;
  unsigned char bytes[HK_FAR_WINDOW_BYTES];
} hk_far_window_t;

typedef struct {
  uintptr_t at;
  uintptr_t end; /* nothing is read from here on */
  bool failed;
  unsigned last; /* the window that was read from last */
  /* Two, because tables lead to and fro between an entry and what it has in common with others. */
  hk_far_window_t windows[2];
} hk_far_bytes_t;

void hk_far_bytes_init(hk_far_bytes_t *reader, uintptr_t start, uintptr_t end);
/* Goes on elsewhere; what was copied already is used again. */
void hk_far_bytes_seek(hk_far_bytes_t *reader, uintptr_t start, uintptr_t end);
/* Copies so many bytes from where it is, at most a window, so that they need not be copied singly. */
void hk_far_bytes_fetch(hk_far_bytes_t *reader, size_t bytes);
/* Passes over so many bytes. */
void hk_far_bytes_skip(hk_far_bytes_t *reader, uint64_t bytes);

/* An unsigned number of 1 to 8 bytes. */
uint64_t hk_far_bytes_number(hk_far_bytes_t *reader, unsigned bytes);
/* DWARF's numbers of variable length. */
uint64_t hk_far_bytes_uleb(hk_far_bytes_t *reader);
int64_t hk_far_bytes_sleb(hk_far_bytes_t *reader);

/* An address in one of the encodings of unwind tables (DW_EH_PE_...); `data` is what addresses may be relative to. An encoding that
 * is not known, or that leads through memory, makes the reader failed. */
uint64_t hk_far_bytes_pointer(hk_far_bytes_t *reader, unsigned encoding, uintptr_t data);

/* The encoding that says that there is nothing. */
#define HK_POINTER_OMITTED 0xff

HK_C_END

#endif /* HK_PROFILE_FAR_BYTES_H */
