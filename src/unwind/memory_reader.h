/* unwind/memory_reader.h - L6. Reads numbers, one after the other, from memory that may be damaged or go away. The
 * kernel copies a piece of that memory at a time. A number that cannot be read makes the reader failed, for good:
 * from then on hk_memory_reader_number returns 0. */
#ifndef HK_UNWIND_MEMORY_READER_H
#define HK_UNWIND_MEMORY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* A copy is a system call. Copying 512 bytes is a small part of its cost. */
#define HK_MEMORY_PIECE_BYTES 512

typedef struct {
  uintptr_t start;
  size_t count;
  unsigned char bytes[HK_MEMORY_PIECE_BYTES];
} hk_memory_piece_t;

typedef struct {
  uintptr_t at;
  uintptr_t end; /* the first address behind what may be read */
  bool failed;
  unsigned last; /* index of the piece that the last read used */
  /* Two: tables lead back and forth between a function's entry and the entry that it shares with others. */
  hk_memory_piece_t pieces[2];
} hk_memory_reader_t;

void hk_memory_reader_init(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end);
/* Continues at `start`. The pieces stay, and a failed reader stays failed. */
void hk_memory_reader_seek(hk_memory_reader_t *reader, uintptr_t start, uintptr_t end);
/* Copies a piece, unless the next `bytes` bytes, at most HK_MEMORY_PIECE_BYTES, are in one already. Reading them one by
 * one then needs no further copy. */
void hk_memory_reader_fetch(hk_memory_reader_t *reader, size_t bytes);
/* Skips `bytes` bytes. Fails when they reach beyond the end. */
void hk_memory_reader_skip(hk_memory_reader_t *reader, uint64_t bytes);

/* Reads an unsigned number of 1 to 8 bytes. */
uint64_t hk_memory_reader_number(hk_memory_reader_t *reader, unsigned bytes);
/* Read DWARF's numbers of variable length (LEB128). */
uint64_t hk_memory_reader_uleb(hk_memory_reader_t *reader);
int64_t hk_memory_reader_sleb(hk_memory_reader_t *reader);

/* Reads an address in one of the encodings of unwind tables (DW_EH_PE_...). `data` is the address that some
 * encodings are relative to. An unknown encoding, or one that leads through memory, makes the reader failed. */
uint64_t hk_memory_reader_pointer(hk_memory_reader_t *reader, unsigned encoding, uintptr_t data);

/* The encoding of an address that is left out. */
#define HK_POINTER_OMITTED 0xff

HK_C_END

#endif /* HK_UNWIND_MEMORY_READER_H */
