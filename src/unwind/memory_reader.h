/* unwind/memory_reader.h - L6. Reading numbers, one after the other, from memory that may be damaged or go away: by copies, a
 * window at a time. What cannot be read makes the reader failed, and reads as 0. */
#ifndef HK_UNWIND_MEMORY_READER_H
#define HK_UNWIND_MEMORY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* A copy is a system call, of which so many bytes are a small part. */
#define HK_MEMORY_WINDOW_BYTES 512

typedef struct {
  uintptr_t start;
  size_t count;
  unsigned char bytes[HK_MEMORY_WINDOW_BYTES];
} hk_memory_window_t;

typedef struct {
  uintptr_t at;
  uintptr_t end; /* nothing is read from here on */
  bool failed;
  unsigned last; /* the window that was read from last */
  /* Two, because tables lead to and fro between an entry and what it has in common with others. */
  hk_memory_window_t windows[2];
} hk_memory_reader_t;

void hk_memory_reader_init(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end);
/* Goes on elsewhere; what was copied already is used again. */
void hk_memory_reader_seek(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end);
/* Copies so many bytes from where it is, at most a window, so that they need not be copied singly. */
void hk_memory_reader_fetch(hk_memory_reader_t *reader, size_t bytes);
/* Passes over so many bytes. */
void hk_memory_reader_skip(hk_memory_reader_t *reader, uint64_t bytes);

/* An unsigned number of 1 to 8 bytes. */
uint64_t hk_memory_reader_number(hk_memory_reader_t *reader, unsigned bytes);
/* DWARF's numbers of variable length. */
uint64_t hk_memory_reader_uleb(hk_memory_reader_t *reader);
int64_t hk_memory_reader_sleb(hk_memory_reader_t *reader);

/* An address in one of the encodings of unwind tables (DW_EH_PE_...); `data` is what addresses may be relative to. An encoding that
 * is not known, or that leads through memory, makes the reader failed. */
uint64_t hk_memory_reader_pointer(hk_memory_reader_t *reader, unsigned encoding, uintptr_t data);

/* The encoding that says that there is nothing. */
#define HK_POINTER_OMITTED 0xff

HK_C_END

#endif /* HK_UNWIND_MEMORY_READER_H */
