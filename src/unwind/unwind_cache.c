/* unwind/unwind_cache.c - L6. See unwind_cache.h. A walk works in a room of its own (walk_room.h). An unwind cache is a
 * stack of stops, the outermost frame at its bottom, so the frames that the next walk does not reach stay in place.
 *
 * A walk that marks the unwind cache as busy owns it. A walk that finds it busy does without it. That happens to
 * threads with the same hash and to signal handlers, and for good in a child of fork if a thread owned the cache during
 * the fork. */
#include "unwind/unwind_cache.h"

#include <assert.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/hash.h"
#include "os/os.h"
#include "os/stack_top.h"
#include "unwind/frame.h"
#include "unwind/here.h"
#include "unwind/own_code.h"
#include "unwind/walk_room.h"

/* Chosen: a walk goes further than its site needs, so that the next one may begin further out. STOPS_MAX leaves
 * room for a walk that begins further in. */
#define STEPS_MAX 128
/* The frames of a site, and hakmem's own, which the site does not have. */
#define FRAMES_MAX (HK_SITE_FRAMES_MAX + 16)
#define STOPS_MAX 192
#define CHECKS_MAX 512
#define CACHE_SHIFT 5
/* They hold what a walk of a dozen frames depends on. */
#define FETCHED_LINES 5

/* A frame that a walk has passed. */
typedef struct {
  hk_frame_t frame; /* with the values, instead of the places, of the needed registers */
  uint8_t needed;   /* the registers that the frames further out depend on */
  uint32_t checks;  /* the number of checks of the frames further out */
} stop_t;

/* A word of the stack that the walk depended on. */
typedef struct {
  uintptr_t address;
  uintptr_t value;
} check_t;

/* A step of the present walk, from `frame`. */
typedef struct {
  hk_frame_t frame;
  hk_frame_note_t note;
} step_t;

typedef struct {
  _Atomic(bool) is_busy;
  bool has_end; /* the lowest stop is the stack's outermost frame */
  uint32_t stop_count;
  uint32_t check_count;
  hk_site_t *site; /* of a walk from the uppermost stop; NULL: not known */
  check_t checks[CHECKS_MAX];
  stop_t stops[STOPS_MAX];
  step_t steps[STEPS_MAX];
} unwind_cache_t;

static _Atomic(unwind_cache_t *) caches[1u << CACHE_SHIFT];

/* ---- The thread's unwind cache. */

static size_t cache_bytes(void) { return hk_align_up(sizeof(unwind_cache_t), hk_os_page_size()); }

static unwind_cache_t *make_cache(_Atomic(unwind_cache_t *) *place) {
  size_t bytes = cache_bytes();
  unwind_cache_t *made = hk_os_reserve_small(bytes, hk_os_page_size()), *found = NULL;
  if (made == NULL || hk_publish_once(place, &found, made)) return made;
  (void)hk_os_unmap(made, bytes);
  return found;
}

static _Atomic(unwind_cache_t *) *place_of(uintptr_t stack_end) {
  return &caches[hk_hash(stack_end) >> (64 - CACHE_SHIFT)];
}

/* Returns the cache of the stack, which is the caller's until it stores false in `is_busy`; NULL when it is busy, or
 * the system has no memory for it. */
static unwind_cache_t *claim_cache(uintptr_t stack_end) {
  _Atomic(unwind_cache_t *) *place = place_of(stack_end);
  unwind_cache_t *cache = hk_load_acquire(place);
  if (HK_UNLIKELY(cache == NULL)) cache = make_cache(place);
  if (cache == NULL || hk_load_relaxed(&cache->is_busy) || hk_exchange_acquire(&cache->is_busy, true)) return NULL;
  return cache;
}

void hk_unwind_cache_prefetch(void) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  const unwind_cache_t *cache = hk_load_acquire(place_of(hk_os_stack_top(here)));
  if (cache == NULL) return;
  const char *line = (const char *)cache;
  for (size_t i = 0; i < FETCHED_LINES; i++) __builtin_prefetch(line + i * HK_CACHE_LINE_BYTES);
}

/* ---- Unchanged frames. */

/* Reads a word of the thread's own stack; returns false for all other memory. */
HK_INLINE bool read_word(const hk_stack_reader_t *stack, uintptr_t address, uintptr_t *word) {
  if (address < stack->own_start || address >= stack->own_end) return false;
  *word = hk_stack_reader_own_word(address);
  return true;
}

/* Returns how many checks hold, from the outermost frame on. */
static uint32_t count_holding(const unwind_cache_t *cache, const hk_stack_reader_t *stack) {
  uint32_t count = 0;
  for (; count < cache->check_count; count++) {
    const check_t *check = &cache->checks[count];
    uintptr_t word;
    if (!read_word(stack, check->address, &word) || word != check->value) break;
  }
  return count;
}

/* Replaces the places of the registers in `which` by their values. Returns false when one cannot be read. */
static bool read_registers(hk_frame_t *frame, const hk_stack_reader_t *stack, unsigned which) {
  for (unsigned left = frame->is_placed & which; left != 0; left &= left - 1) {
    uintptr_t *place = &frame->registers[hk_lowest_bit(left)];
    if (!hk_is_aligned(*place, sizeof *place) || !read_word(stack, *place, place)) return false;
  }
  frame->is_placed &= (uint8_t)~which;
  return true;
}

/* Returns whether the frame is the stop's, with the same values of the needed registers. */
static bool is_at(const stop_t *stop, const hk_stack_reader_t *stack, const hk_frame_t *frame) {
  if (stop->frame.registers[hk_frame_sp] != frame->registers[hk_frame_sp] || stop->frame.pc != frame->pc) return false;
  if (((stop->frame.known ^ frame->known) & stop->needed) != 0) return false;
  hk_frame_t found = *frame;
  if (!read_registers(&found, stack, stop->needed)) return false;
  for (unsigned left = stop->needed; left != 0; left &= left - 1) {
    unsigned i = hk_lowest_bit(left);
    if (stop->frame.registers[i] != found.registers[i]) return false;
  }
  return true;
}

/* ---- A walk. */

typedef struct {
  hk_frame_t frame; /* the walk's present frame */
  hk_frame_source_t source;
  uint32_t step_count;
  bool is_plain; /* the unwind cache can keep all steps so far */
  bool has_end;
  uintptr_t frames[FRAMES_MAX]; /* of the site */
} walk_t;

static_assert(sizeof(walk_t) <= HK_WALK_ROOM_BYTES, "a walk has one room");

/* Removes the stops that lie further in than the walk's frame, or that have changed. Returns whether the walk's
 * frame is the uppermost stop that is left. */
static bool meets(unwind_cache_t *cache, const walk_t *walk, uint32_t holding) {
  while (cache->stop_count > 0) {
    const stop_t *stop = &cache->stops[cache->stop_count - 1];
    if (stop->checks <= holding) {
      if (is_at(stop, &walk->source.stack, &walk->frame)) return true;
      if (stop->frame.registers[hk_frame_sp] > walk->frame.registers[hk_frame_sp]) return false;
    }
    cache->stop_count--;
  }
  return false;
}

/* Walks until it meets a stop of the unwind cache. Returns false when the stack or the room for steps ends first. */
static bool go(unwind_cache_t *cache, walk_t *walk, uint32_t holding) {
  while (walk->step_count < STEPS_MAX) {
    if (meets(cache, walk, holding)) return true;
    step_t *step = &cache->steps[walk->step_count];
    step->frame = walk->frame;
    if (!hk_frame_step_noting(&walk->frame, &walk->source, &step->note)) {
      walk->frame = step->frame;
      walk->has_end = true;
      return false;
    }
    walk->is_plain = walk->is_plain && step->note.is_plain;
    walk->step_count++;
  }
  return false;
}

/* ---- Keeping a walk. */

static void forget(unwind_cache_t *cache) { cache->stop_count = cache->check_count = 0; }

/* Adds checks for the words that the step to this caller has read from the stack, as far as they are needed. Returns
 * false when a check cannot be kept. */
static bool put_checks(unwind_cache_t *cache, const hk_stack_reader_t *stack, const hk_frame_note_t *note,
                       const hk_frame_t *caller, unsigned needed) {
  for (unsigned left = note->saved & (needed | 1u << hk_frame_ra); left != 0; left &= left - 1) {
    unsigned i = hk_lowest_bit(left);
    if (cache->check_count == CHECKS_MAX) return false;
    check_t *check = &cache->checks[cache->check_count++];
    check->address = i == hk_frame_ra ? note->ra_place : caller->registers[i];
    if (!hk_is_aligned(check->address, sizeof check->value)) return false;
    if (!read_word(stack, check->address, &check->value)) return false;
  }
  return true;
}

static bool put_stop(unwind_cache_t *cache, const hk_stack_reader_t *stack, const hk_frame_t *frame, unsigned needed) {
  if (cache->stop_count == STOPS_MAX) return false;
  stop_t *stop = &cache->stops[cache->stop_count];
  *stop = (stop_t){*frame, (uint8_t)needed, cache->check_count};
  if (!read_registers(&stop->frame, stack, needed)) return false;
  cache->stop_count++;
  return true;
}

/* Puts the walk's steps on the stops that it met, the outermost first. The outermost stop of all needs all known
 * registers, since a longer walk would continue with them. Returns false when a step cannot be kept. */
static bool keep_steps(unwind_cache_t *cache, const walk_t *walk, bool has_met) {
  const hk_stack_reader_t *stack = &walk->source.stack;
  if (!walk->is_plain) return false;
  if (!has_met) {
    forget(cache);
    cache->has_end = walk->has_end;
    if (!put_stop(cache, stack, &walk->frame, walk->frame.known)) return false;
  }
  cache->check_count = cache->stops[cache->stop_count - 1].checks;
  for (uint32_t i = walk->step_count; i-- > 0;) {
    const step_t *step = &cache->steps[i];
    const hk_frame_t *caller = i + 1 < walk->step_count ? &cache->steps[i + 1].frame : &walk->frame;
    unsigned caller_needed = cache->stops[cache->stop_count - 1].needed;
    unsigned needed = (caller_needed & ~(unsigned)step->note.changed) | step->note.used;
    if ((step->note.saved & 1u << hk_frame_ra) == 0) needed |= 1u << hk_frame_ra;
    if (!put_checks(cache, stack, &step->note, caller, caller_needed)) return false;
    if (!put_stop(cache, stack, &step->frame, needed)) return false;
  }
  return true;
}

/* ---- The site. */

static hk_site_t *site_of_stack(const uintptr_t *frames, unsigned count) {
  unsigned own = hk_own_code_count(frames, count);
  return hk_site_of(frames + own, count - own);
}

static hk_site_t *site_of_walk(const unwind_cache_t *cache, walk_t *walk, uint32_t met_count) {
  uintptr_t *frames = walk->frames;
  unsigned count = 0;
  for (uint32_t i = 1; i < walk->step_count && count < FRAMES_MAX; i++) {
    frames[count++] = cache->steps[i].frame.pc + 1;
  }
  if (walk->step_count > 0 && count < FRAMES_MAX) frames[count++] = walk->frame.pc + 1;
  uint32_t behind = met_count > 0 ? met_count - 1 : 0;
  while (behind > 0 && count < FRAMES_MAX) frames[count++] = cache->stops[--behind].frame.pc + 1;
  return site_of_stack(frames, count);
}

static bool is_enough(const unwind_cache_t *cache, const walk_t *walk) {
  return cache->has_end || walk->step_count + cache->stop_count > FRAMES_MAX;
}

static hk_site_t *walk_along(unwind_cache_t *cache, walk_t *walk) {
  hk_frame_t start = walk->frame;
  uint32_t holding = count_holding(cache, &walk->source.stack);
  bool has_met = go(cache, walk, holding);
  if (has_met && walk->step_count == 0 && cache->site != NULL) return cache->site;
  if (has_met && !is_enough(cache, walk)) { /* the last walk is too short for this one's site */
    forget(cache);
    walk->frame = start;
    walk->step_count = 0;
    has_met = go(cache, walk, 0);
  }
  hk_site_t *site = site_of_walk(cache, walk, has_met ? cache->stop_count : 0);
  cache->site = NULL;
  if (keep_steps(cache, walk, has_met)) {
    cache->site = site;
  } else {
    forget(cache);
  }
  return site;
}

static hk_site_t *walk_alone(walk_t *walk) {
  unsigned count = 0;
  while (count < FRAMES_MAX && hk_frame_step(&walk->frame, &walk->source)) walk->frames[count++] = walk->frame.pc + 1;
  return site_of_stack(walk->frames, count);
}

static hk_site_t *walk_from(walk_t *walk) {
  const hk_stack_reader_t *stack = &walk->source.stack;
  bool is_own = stack->own_start < stack->own_end;
  unwind_cache_t *cache = is_own ? claim_cache(stack->own_end) : NULL;
  if (cache == NULL) return walk_alone(walk);
  hk_site_t *site = walk_along(cache, walk);
  hk_store_release(&cache->is_busy, false);
  return site;
}

HK_NOINLINE hk_site_t *hk_unwind_cache_site(void) {
  walk_t *walk = (walk_t *)hk_walk_room_take();
  if (walk == NULL) return hk_site_of(NULL, 0);
  walk->step_count = 0;
  walk->is_plain = true;
  walk->has_end = false;
  hk_frame_here(&walk->frame);
  hk_frame_source_init(&walk->source, walk->frame.registers[hk_frame_sp]);
  hk_site_t *site = walk_from(walk);
  hk_walk_room_give(walk);
  return site;
}

void hk_unwind_cache_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context) {
  for (unsigned i = 0; i < sizeof caches / sizeof *caches; i++) {
    unwind_cache_t *cache = hk_load_acquire(&caches[i]);
    if (cache != NULL) visit(context, (uintptr_t)cache, cache_bytes());
  }
  hk_walk_room_visit_memory(visit, context);
}
