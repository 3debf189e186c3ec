/* space/guard_record.h - L3. The record of a guard slot: the block that it has or had.
 *
 * The thread that has made the slot busy writes the record. Any thread reads it, without a lock: it copies the fields,
 * and drops the copy when the record's sequence has changed meanwhile. docs/concurrency.md has the argument for each
 * order. */
#ifndef HK_SPACE_GUARD_RECORD_H
#define HK_SPACE_GUARD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

HK_C_BEGIN

/* A call stack (unwind/site.h), and a named heap or tag (heap/named.h); opaque here. */
struct hk_site;
struct hk_named;

typedef enum { hk_guard_unused, hk_guard_busy, hk_guard_live, hk_guard_freed } hk_guard_state_t;

/* The call that allocated or freed a block. */
typedef struct {
  struct hk_site *site;
  uint64_t thread; /* the kernel's number; 0: unknown */
  uint64_t ms;     /* monotonic */
} hk_guard_deed_t;

/* A copy of a record, of one moment. */
typedef struct {
  hk_guard_state_t state; /* live or freed */
  uintptr_t start;        /* of the block */
  size_t bytes;           /* that were requested */
  struct hk_named *named; /* the block's named heap or tag; NULL: none */
  uintptr_t pages;        /* of the block and its padding */
  size_t pages_bytes;
  hk_guard_deed_t allocated;
  hk_guard_deed_t freed; /* of a live block: all 0 */
} hk_guard_view_t;

typedef struct {
  _Atomic(uint32_t) sequence; /* raised before and after each change */
  _Atomic(uint8_t) state;     /* hk_guard_state_t */
  _Atomic(bool) is_opened;    /* hk_guard_slot_open_page has opened a page of the slot; no part of a change */
  _Atomic(uintptr_t) start;
  _Atomic(size_t) bytes;
  _Atomic(struct hk_named *) named;
  _Atomic(uintptr_t) pages;
  _Atomic(size_t) pages_bytes;
  _Atomic(uintptr_t) mapping; /* with the guard pages; of a slot of one page constant. 0: none */
  _Atomic(size_t) mapping_bytes;
  _Atomic(struct hk_site *) alloc_site;
  _Atomic(uint64_t) alloc_thread;
  _Atomic(uint64_t) alloc_ms;
  _Atomic(struct hk_site *) free_site;
  _Atomic(uint64_t) free_thread;
  _Atomic(uint64_t) free_ms;
} hk_guard_record_t;

/* These four are for the thread that has made the slot busy. Each leaves the slot in another state. */

/* Notes a new block, in a mapping that begins with a guard page. */
void hk_guard_record_write_allocated(hk_guard_record_t *record, const hk_guard_view_t *view, uintptr_t mapping,
                                     size_t mapping_bytes);

/* Notes the free of the block. */
void hk_guard_record_write_freed(hk_guard_record_t *record, const hk_guard_deed_t *deed);

/* Ends the use of a slot that has no block. */
void hk_guard_record_write_unused(hk_guard_record_t *record);

/* Ends the use of a slot that is about to lose its mapping, whose length stays. */
void hk_guard_record_write_unmapped(hk_guard_record_t *record);

/* Copies the fields, but not the state. The copy is of one moment if the caller has made the slot busy. */
void hk_guard_record_copy(hk_guard_record_t *record, hk_guard_view_t *view);

/* Copies the record. Returns false when the slot has no block, or has changed meanwhile. A block that is being freed
 * counts as live. Any thread. */
bool hk_guard_record_read(hk_guard_record_t *record, hk_guard_view_t *view);

/* Returns whether the address lies in the slot's mapping. False when the slot changes meanwhile: its block is not one
 * that the caller has. Any thread. */
bool hk_guard_record_has(hk_guard_record_t *record, uintptr_t address);

HK_C_END

#endif /* HK_SPACE_GUARD_RECORD_H */
