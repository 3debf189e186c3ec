/* policy/pressure.h - L2. How much idle memory may stay when memory has a limit, and when to look again how near it is.
 * Numbers in, numbers out: no clock, no lock, no system call, no state but its caller's.
 *
 * Far from a limit all stays that policy/retention.h allows. As memory that is needed takes up more of it, so much less may
 * be idle that both together stay below HK_PRESSURE_NEAR as long as that goes; and nothing is idle any more when what
 * is needed alone reaches HK_PRESSURE_FULL. Time that tasks spend waiting for memory lowers it too.
 *
 * The system's limit counts more than our memory, and its use is known only as of the last look. What was not ours then
 * is use less all we have: memory that is handed out and not touched yet makes that too small, so the largest of the
 * last looks is believed. To it is added what is in use now, so a burst between two looks, or one that was not touched
 * when somebody looked, counts from the moment it is handed out.
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

/* Chosen: from so much of a limit on idle memory is the less, and at so much of it there is none. In twentieths. */
#define HK_PRESSURE_NEAR 16
#define HK_PRESSURE_FULL 19
#define HK_PRESSURE_PARTS 20

/* Chosen: from so much of a limit on, free memory that heaps keep for their threads goes too, if these sleep. In
 * twentieths. */
#define HK_PRESSURE_FELT 10

/* Chosen: when tasks wait for memory for so many thousandths of the time, nothing may be idle. */
#define HK_PRESSURE_STALLED_PERMILLE 200

/* Chosen: as often as this the system is asked, and once more whenever we have grown by this part of the room that was
 * left, but no less than that part of the limit: near its end the room is nothing. */
#define HK_PRESSURE_LOOK_MS ((uint64_t)100)
#define HK_PRESSURE_GROWTH_SHARE 4
#define HK_PRESSURE_LEAST_GROWTH_SHARE 64

/* Chosen: so long what the last looks found is believed, and for one such time more. */
#define HK_PRESSURE_WINDOW_MS ((uint64_t)500)

/* Chosen: a program that has less than this asks nobody. */
#define HK_PRESSURE_LEAST_BYTES (8 * HK_MIB)

/* What there is at one moment. */
typedef struct {
  uint64_t now_ms; /* on any clock that runs forward; a step back counts as none */
  size_t dirty_bytes;
  size_t in_use_bytes;
  size_t own_limit_bytes; /* the option: in use and idle together should stay below it; 0: there is none */
} hk_pressure_view_t;

/* All zero to begin with. */
typedef struct {
  bool has_looked;
  uint64_t next_look_ms;
  size_t next_look_bytes;    /* at so much in use and idle, if that is earlier */
  hk_os_memory_limit_t seen; /* by the last look */
  uint64_t window_start_ms;
  intptr_t others_bytes;        /* the most that was not ours, in this window; below zero where ours was not touched */
  intptr_t others_before_bytes; /* in the window before */
} hk_pressure_t;

/* Whether there is no limit: then the other functions need not be called. False before the first look. */
HK_INLINE bool hk_pressure_is_none(const hk_pressure_t *pressure, size_t own_limit_bytes) {
  return pressure->has_looked && pressure->seen.limit_bytes == 0 && own_limit_bytes == 0;
}

/* Whether to ask the system now (hk_os_memory_limit) and tell hk_pressure_note. True for one caller: the next look is
 * due later then, whether or not this one ever ends. */
bool hk_pressure_is_due(hk_pressure_t *pressure, const hk_pressure_view_t *view);

/* What the system said. */
void hk_pressure_note(hk_pressure_t *pressure, const hk_pressure_view_t *view, const hk_os_memory_limit_t *seen);

/* Whether what is needed takes up HK_PRESSURE_FELT of a limit. */
bool hk_pressure_is_felt(const hk_pressure_t *pressure, const hk_pressure_view_t *view);

/* How much may be idle, of `allowed_bytes` that could stay were there no limit. */
size_t hk_pressure_limit(const hk_pressure_t *pressure, const hk_pressure_view_t *view, size_t allowed_bytes);

HK_C_END

#endif /* HK_POLICY_PRESSURE_H */
