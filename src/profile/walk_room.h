/* profile/walk_room.h - L5. Room for what one walk up a stack works with: the stack that is walked is the program's,
 * and may have few pages left.
 */
#ifndef HK_PROFILE_WALK_ROOM_H
#define HK_PROFILE_WALK_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Chosen: what a walk needs, and a page that most systems have. */
#define HK_WALK_ROOM_BYTES 4096

/* Room that is the caller's until it gives it back, with anything in it. NULL when the system refuses. From any
 * thread and signal handler. */
void *hk_walk_room_take(void);
void hk_walk_room_give(void *room);

/* The memory of those that are kept for the next walks: what they hold of stacks and registers may be of long ago. */
void hk_walk_room_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_PROFILE_WALK_ROOM_H */
