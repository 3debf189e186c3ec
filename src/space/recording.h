/* space/recording.h - L3. Records the bytes in use over time into the file that HAKMEM_TRACE names. `hakmem learn
 * replay` reads it (docs/learning.md, "The trace").
 *
 * Notes go into one of two chunks in memory, under hk_lock_space. When a chunk is full, a thread writes it after it has
 * released the lock, and the notes go into the other one. When both are full, notes become coarser
 * (policy/level_trace.h).
 *
 * The file is made when there is something to write, not earlier: a process that calls exec leaves its number, and the
 * file name made of it, to the program that follows. A child of fork never writes into its parent's file. It records
 * into one of its own if the path has %p, else not at all.
 */
#ifndef HK_SPACE_RECORDING_H
#define HK_SPACE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* Written under hk_lock_space, read by any thread. */
typedef struct {
  _Atomic(bool) is_on;
  _Atomic(bool) is_full;
} hk_recording_state_t;

extern HK_HIDDEN hk_recording_state_t hk_recording_state;

void hk_recording_note_slow_locked(uint64_t now_ms, size_t in_use_bytes);

/* Notes the bytes in use. Call it after each change. Requires hk_lock_space. */
HK_INLINE void hk_recording_note_locked(uint64_t now_ms, size_t in_use_bytes) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_recording_state.is_on))) hk_recording_note_slow_locked(now_ms, in_use_bytes);
}

/* The functions below are called without hk_lock_space. */

/* Returns whether a chunk is full. Any thread that sees it may call hk_recording_write. */
HK_INLINE bool hk_recording_is_full(void) { return HK_UNLIKELY(hk_load_relaxed(&hk_recording_state.is_full)); }

/* Writes a full chunk to the file, which the first call makes. Does nothing while another thread writes. Complains once
 * where the system refuses, and ends the recording. */
void hk_recording_write(void);

/* Begins the recording, if HAKMEM_TRACE names a file. Requires that the options were read. Complains at once when the
 * file cannot be made. A price of 0 means unknown. */
void hk_recording_start(size_t in_use_bytes, uint64_t ns_per_mib_second);

/* Writes the notes that are left and ends the recording. */
void hk_recording_finish(void);

/* For a child of fork, while it has one thread: ends the parent's recording in it and begins its own, with the bytes in
 * use there, if the path has %p. */
void hk_recording_repair(size_t in_use_bytes);

#endif /* HK_SPACE_RECORDING_H */
