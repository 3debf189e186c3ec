/* unwind/walk_room.h - L6. Working memory for a walk up a stack, which is the program's and may have few pages left. */
#ifndef HK_UNWIND_WALK_ROOM_H
#define HK_UNWIND_WALK_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Chosen: one page on most systems, and enough for a walk (asserted in unwind_cache.c). */
#define HK_WALK_ROOM_BYTES 4096

/* Returns a room, uninitialised, which is the caller's until hk_walk_room_give; NULL when the system refuses memory.
 * Any thread and signal handler may call it. */
void *hk_walk_room_take(void);
void hk_walk_room_give(void *room);

/* Visits the memory of the kept rooms. It may have outdated contents of stacks and registers. */
void hk_walk_room_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_UNWIND_WALK_ROOM_H */
