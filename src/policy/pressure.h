/* policy/pressure.h - L2. How much dirty memory may stay when memory has a limit, and when to ask the system for it
 * again. Numbers in, numbers out: no clock, no lock, no system call, no state but its caller's.
 *
 * Needed memory is all that a limit counts except dirty memory. Far from a limit, all dirty memory that
 * policy/retention.h allows may stay. As needed memory takes up more of the limit, less may be dirty: needed and dirty
 * memory together stay below HK_PRESSURE_NEAR as long as possible. When needed memory alone reaches HK_PRESSURE_FULL,
 * nothing may be dirty. Time that tasks spend waiting for memory lowers the amount too.
 *
 * A limit counts resident memory. hakmem holds some that is not resident: handed out, and not touched yet. The system's
 * limit counts the memory of others too: of other processes in the group, and of this one outside hakmem. The system
 * tells only the whole use, and only at a look. The use less all memory that hakmem holds is what the limit counts
 * beyond it, which may be less than nothing. Memory that is touched after a look makes this difference too small, so
 * the largest of the last looks counts. Needed memory is that difference and hakmem's memory in use now. So a burst
 * between two looks counts from the moment it is handed out, and so does memory that was not touched at a look.
 *
 * The user's limit is for hakmem's memory. The process's anonymous memory is the most of it that can be resident. Where
 * that is less than what hakmem holds, the difference counts as above; else nothing does beyond what hakmem holds.
 */
#ifndef HK_POLICY_PRESSURE_H
#define HK_POLICY_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"
#include "os/os.h"

HK_C_BEGIN

/* Chosen: from HK_PRESSURE_NEAR of a limit on, less memory may be dirty; from HK_PRESSURE_FULL on, none. In
 * twentieths. */
#define HK_PRESSURE_NEAR 16
#define HK_PRESSURE_FULL 19
#define HK_PRESSURE_PARTS 20

/* Chosen: from this part of a limit on, free memory in the heaps of sleeping threads is purged too. In twentieths. */
#define HK_PRESSURE_FELT 10

/* Chosen: when tasks wait for memory for this part of the time, in thousandths, nothing may be dirty. */
#define HK_PRESSURE_STALLED_PERMILLE 200

/* Chosen: the time between two looks, in ms. A look is also due when the memory held has grown by the growth share
 * of the room that was left, but at least by the least growth share of the limit: near its end there is no room. */
#define HK_PRESSURE_LOOK_MS ((uint64_t)100)
#define HK_PRESSURE_GROWTH_SHARE 4
#define HK_PRESSURE_MIN_GROWTH_SHARE 64

/* Chosen: the results of looks count in the period in which they were made and in the next one, in ms. The kernel ends
 * a process that exceeds the system's limit; at the user's limit a shorter period does. */
#define HK_PRESSURE_PERIOD_MS ((uint64_t)500)
#define HK_PRESSURE_OWN_PERIOD_MS HK_PRESSURE_LOOK_MS

/* Chosen: below this much memory held, the program makes no first look. */
#define HK_PRESSURE_MIN_BYTES (8 * HK_MIB)

/* The memory at one moment. All three sums together are the memory held. */
typedef struct {
  uint64_t now_ms; /* on any clock that runs forward; a step back counts as none */
  size_t dirty_bytes;
  size_t in_use_bytes;
  size_t apart_bytes;     /* free, but in no sum of space/dirty.h (space/apart.h): needed, as memory in use is */
  size_t own_limit_bytes; /* the option: the user's limit of resident memory; 0: none */
} hk_pressure_view_t;

/* What a limit counts beyond the memory held; below zero where memory held is not resident. */
typedef struct {
  uint64_t period_start_ms;
  intptr_t most_bytes;        /* of the looks of this period */
  intptr_t most_before_bytes; /* of those of the period before */
} hk_pressure_beyond_t;

/* Initially all zero. */
typedef struct {
  bool has_looked;
  uint64_t next_look_ms;
  size_t next_look_bytes;    /* held, at which a look is due before next_look_ms */
  hk_os_memory_limit_t seen; /* by the last look */
  hk_pressure_beyond_t in_system;
  hk_pressure_beyond_t in_own; /* never above zero */
} hk_pressure_t;

/* Returns whether there is no limit: then no other function need be called. False before the first look. */
HK_INLINE bool hk_pressure_is_none(const hk_pressure_t *pressure, size_t own_limit_bytes) {
  return pressure->has_looked && pressure->seen.limit_bytes == 0 && own_limit_bytes == 0;
}

/* Returns whether the caller is to query the system now (hk_os_memory_limit) and to call hk_pressure_note. Returns true
 * to one caller: the next look is later then, even if this one never ends. */
bool hk_pressure_is_due(hk_pressure_t *pressure, const hk_pressure_view_t *view);

/* Returns the memory held at which a look is due before its time; SIZE_MAX when none is. */
size_t hk_pressure_next_look_bytes(const hk_pressure_t *pressure, size_t own_limit_bytes);

/* Notes what the system has reported. */
void hk_pressure_note(hk_pressure_t *pressure, const hk_pressure_view_t *view, const hk_os_memory_limit_t *seen);

/* Returns whether needed memory takes up HK_PRESSURE_FELT of a limit. */
bool hk_pressure_is_felt(const hk_pressure_t *pressure, const hk_pressure_view_t *view);

/* Returns the bytes that may be dirty, of the `allowed_bytes` that may be dirty without a limit. */
size_t hk_pressure_limit(const hk_pressure_t *pressure, const hk_pressure_view_t *view, size_t allowed_bytes);

HK_C_END

#endif /* HK_POLICY_PRESSURE_H */
