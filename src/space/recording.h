/* space/recording.h - L3. Records how many bytes are in use over time into the file that HAKMEM_TRACE names: what
 * `hakmem learn replay` reads (docs/learning.md, "The trace"). What is noted goes into one of two chunks in memory,
 * under hk_lock_space; who has filled one writes it when the lock is released. When both are full, less is noted.
 *
 * The file is made when there is something to write, not before: a process that calls exec leaves its number, and the
 * name that is made of it, to the program that follows. A child of fork never writes into its parent's file: it records
 * into one of its own when the path has %p, else not at all.
 */
#ifndef HK_SPACE_RECORDING_H
#define HK_SPACE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

/* Written under hk_lock_space, read by anybody. */
typedef struct {
  _Atomic(bool) is_on;
  _Atomic(bool) is_full;
} hk_recording_state_t;

extern HK_HIDDEN hk_recording_state_t hk_recording_state;

void hk_recording_note_slow_locked(uint64_t now_ms, size_t in_use_bytes);

/* So much is in use now. To be called after each change. */
HK_INLINE void hk_recording_note_locked(uint64_t now_ms, size_t in_use_bytes) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_recording_state.is_on))) hk_recording_note_slow_locked(now_ms, in_use_bytes);
}

/* What follows is called without the lock. */

/* Whether there is a chunk to be written, by whoever asks. */
HK_INLINE bool hk_recording_is_full(void) { return HK_UNLIKELY(hk_load_relaxed(&hk_recording_state.is_full)); }

void hk_recording_write(void);

/* After the options were read. Says it now rather than later when the file cannot be made. A price of 0 is not known. */
void hk_recording_start(size_t in_use_bytes, uint64_t ns_per_mib_second);

/* Writes what is left, and records no more. */
void hk_recording_finish(void);

/* In the child of fork, where nobody else is in here: what is in use there is known again. */
void hk_recording_repair(size_t in_use_bytes);

#endif /* HK_SPACE_RECORDING_H */
