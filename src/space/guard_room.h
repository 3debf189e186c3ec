/* space/guard_room.h - L3. Bounds how many blocks are guarded at once. Each takes two mappings of the process, and a
 * process with vm.max_map_count mappings can map nothing more. So no block is guarded once the process has half as
 * many. */
#ifndef HK_SPACE_GUARD_ROOM_H
#define HK_SPACE_GUARD_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Takes the room for one more block. Returns false when there is none. Counts the mappings of the process now and then.
 * Any thread. */
bool hk_guard_room_take(uint64_t now_ms);

/* Gives the room of a block back. */
void hk_guard_room_give(void);

HK_C_END

#endif /* HK_SPACE_GUARD_ROOM_H */
