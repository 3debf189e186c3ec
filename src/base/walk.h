/* base/walk.h - L0. Decides when a debug build walks a whole structure.
 *
 * Each slow path of a structure earns an allowance of steps. A walk is due when the structure has earned as many steps
 * as the last walk took. A small structure is walked after each slow path, a large one seldom, and the average cost of
 * a slow path is about the same. The lock or the owner of the structure guards its walk too.
 */
#ifndef HK_BASE_WALK_H
#define HK_BASE_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Chosen: steps that a slow path earns. With the walks, the tests of the debug and asan builds take at most 1.5 times
 * as long as without. */
#define HK_WALK_ALLOWANCE 64

/* Zero-initialised, so that the first walk is due at once. */
typedef struct {
  uint64_t earned;
  uint64_t price; /* steps that the last walk took */
} hk_walk_t;

/* Counts a slow path. Returns true when the caller has to walk the structure and then call hk_walk_end. */
HK_INLINE bool hk_walk_is_due(hk_walk_t *walk) {
  walk->earned += HK_WALK_ALLOWANCE;
  if (walk->earned < walk->price) return false;
  walk->earned = 0;
  return true;
}

HK_INLINE void hk_walk_end(hk_walk_t *walk, uint64_t steps) { walk->price = steps; }

#endif /* HK_BASE_WALK_H */
