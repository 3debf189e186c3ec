/* unwind/walk_room.c - L6. See walk_room.h. A walk that finds no free room maps one, which is kept for later walks. A
 * room that another thread has during a fork stays taken in the child. */
#include "unwind/walk_room.h"

#include <stdbool.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "os/os.h"

/* Chosen: more threads than usually walk at once. Further threads map a room for the walk and unmap it. */
#define ROOM_COUNT 64

/* A room's address, with IS_TAKEN in its lowest bit; 0: none yet. */
static _Atomic(uintptr_t) rooms[ROOM_COUNT];
#define IS_TAKEN ((uintptr_t)1)

static size_t room_bytes(void) { return hk_align_up(HK_WALK_ROOM_BYTES, hk_os_page_size()); }

static uintptr_t make(void) { return (uintptr_t)hk_os_reserve_small(room_bytes(), hk_os_page_size()); }

/* Maps a room, and keeps it at `place`, which may be NULL, if that is still empty. */
static void *take_new(_Atomic(uintptr_t) *place) {
  uintptr_t made = make(), none = 0;
  if (made != 0 && place != NULL) (void)hk_compare_exchange_acquire(place, &none, made | IS_TAKEN);
  return (void *)made;
}

/* Returns the place at which a thread begins its search. It depends on the stack, so that two threads that walk at once
 * rarely take the same place. */
static unsigned first_place(void) {
  uint64_t page = (uintptr_t)__builtin_frame_address(0) >> 16;
  return (unsigned)(hk_hash(page) >> 32) % ROOM_COUNT;
}

void *hk_walk_room_take(void) {
  unsigned first = first_place();
  for (unsigned i = 0; i < ROOM_COUNT; i++) {
    _Atomic(uintptr_t) *place = &rooms[(first + i) % ROOM_COUNT];
    uintptr_t room = hk_load_relaxed(place);
    if (room == 0) return take_new(place);
    if ((room & IS_TAKEN) == 0 && hk_compare_exchange_acquire(place, &room, room | IS_TAKEN)) return (void *)room;
  }
  return take_new(NULL);
}

void hk_walk_room_give(void *room) {
  unsigned first = first_place();
  for (unsigned i = 0; i < ROOM_COUNT; i++) {
    _Atomic(uintptr_t) *place = &rooms[(first + i) % ROOM_COUNT];
    if (hk_load_relaxed(place) != ((uintptr_t)room | IS_TAKEN)) continue;
    hk_store_release(place, (uintptr_t)room); /* with the next taker */
    return;
  }
  (void)hk_os_unmap(room, room_bytes());
}

void hk_walk_room_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context) {
  for (unsigned i = 0; i < ROOM_COUNT; i++) {
    uintptr_t room = hk_load_relaxed(&rooms[i]) & ~IS_TAKEN;
    if (room != 0) visit(context, room, room_bytes());
  }
}
