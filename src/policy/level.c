/* policy/level.c - L2. See level.h. */
#include "policy/level.h"

#include <string.h>

#include "base/bits.h"

/* Bits of a weight: its product with a time below 2^38 ms fits 64 bits. */
#define WEIGHT_BITS 26u

static size_t bottom(const hk_level_t *level, unsigned index) {
  return index + 1 < level->count ? level->segment[index + 1].top_bytes : level->in_use_bytes;
}

size_t hk_level_segment_bytes(const hk_level_t *level, unsigned index) {
  return level->segment[index].top_bytes - bottom(level, index);
}

uint64_t hk_level_segment_age_ms(const hk_level_t *level, unsigned index) {
  return level->now_ms - level->segment[index].since_ms;
}

/* Returns whether segments i and i + 1 are nearer to each other than j and j + 1: the difference of their ages is the
 * smaller part of the older one's age. */
static bool is_nearer(const hk_level_t *level, unsigned i, unsigned j) {
  uint64_t i_apart = level->segment[i + 1].since_ms - level->segment[i].since_ms;
  uint64_t j_apart = level->segment[j + 1].since_ms - level->segment[j].since_ms;
  return (unsigned __int128)i_apart * hk_level_segment_age_ms(level, j) <
         (unsigned __int128)j_apart * hk_level_segment_age_ms(level, i);
}

/* Returns about apart_ms * bytes / all_bytes, without overflow. */
static uint64_t weighted(uint64_t apart_ms, size_t bytes, size_t all_bytes) {
  unsigned bits = hk_highest_bit(all_bytes) + 1;
  unsigned shift = bits > WEIGHT_BITS ? bits - WEIGHT_BITS : 0;
  uint64_t longest_ms = UINT64_MAX >> WEIGHT_BITS;
  if (apart_ms > longest_ms) return bytes > all_bytes / 2 ? apart_ms : 0;
  return apart_ms * (bytes >> shift) / (all_bytes >> shift);
}

/* Makes one segment of `index` and the next younger one. */
static void merge(hk_level_t *level, unsigned index) {
  hk_level_segment_t *older = &level->segment[index], *younger = older + 1;
  size_t younger_bytes = hk_level_segment_bytes(level, index + 1);
  size_t all_bytes = hk_level_segment_bytes(level, index) + younger_bytes;
  older->since_ms += weighted(younger->since_ms - older->since_ms, younger_bytes, all_bytes);
  memmove(younger, younger + 1, (level->count - index - 2) * sizeof *younger);
  level->count--;
}

static void make_room(hk_level_t *level) {
  unsigned nearest = 0;
  for (unsigned i = 1; i + 1 < level->count; i++) {
    if (is_nearer(level, i, nearest)) nearest = i;
  }
  merge(level, nearest);
}

static void fall(hk_level_t *level) {
  if (level->count > 0 && level->segment[level->count - 1].since_ms == level->now_ms) return;
  if (level->count == HK_LEVEL_SEGMENTS) make_room(level);
  level->segment[level->count++] = (hk_level_segment_t){.top_bytes = level->in_use_bytes, .since_ms = level->now_ms};
}

static void rise(hk_level_t *level, size_t to_bytes, hk_level_output_t output, void *context) {
  size_t from_bytes = level->in_use_bytes;
  while (level->count > 0 && from_bytes < to_bytes) {
    hk_level_segment_t *youngest = &level->segment[level->count - 1];
    bool is_whole = youngest->top_bytes <= to_bytes;
    size_t top_bytes = is_whole ? youngest->top_bytes : to_bytes;
    output(context, top_bytes - from_bytes, level->now_ms - youngest->since_ms);
    if (is_whole) level->count--;
    from_bytes = top_bytes;
  }
}

void hk_level_pass(hk_level_t *level, uint64_t now_ms) {
  if (now_ms > level->now_ms) level->now_ms = now_ms;
}

void hk_level_note(hk_level_t *level, uint64_t now_ms, size_t in_use_bytes, hk_level_output_t output, void *context) {
  hk_level_pass(level, now_ms);
  if (in_use_bytes < level->in_use_bytes) fall(level);
  if (in_use_bytes > level->in_use_bytes) rise(level, in_use_bytes, output, context);
  level->in_use_bytes = in_use_bytes;
}

size_t hk_level_dirty_bytes(const hk_level_t *level) {
  return level->count > 0 ? level->segment[0].top_bytes - level->in_use_bytes : 0;
}

size_t hk_level_returning_bytes(const hk_level_t *level, uint64_t now_ms, uint64_t age_ms, size_t to_bytes) {
  size_t returning = 0;
  for (unsigned i = level->count; i-- > 0;) {
    uint64_t since_ms = level->segment[i].since_ms;
    size_t from_bytes = bottom(level, i), top_bytes = level->segment[i].top_bytes;
    if (from_bytes >= to_bytes || (now_ms > since_ms && now_ms - since_ms > age_ms)) break;
    returning += (top_bytes < to_bytes ? top_bytes : to_bytes) - from_bytes;
  }
  return returning;
}

/* Returns the first step, from `from` on, that applies at this age; `count` when none does. */
static unsigned step_at(const hk_decay_t *decay, unsigned from, uint64_t age_ms) {
  while (from < decay->count && age_ms > decay->step[from].until_ms) from++;
  return from;
}

size_t hk_level_kept_bytes(const hk_level_t *level, const hk_decay_t *decay) {
  size_t kept = 0;
  unsigned step = 0;
  for (unsigned i = level->count; i-- > 0;) {
    step = step_at(decay, step, hk_level_segment_age_ms(level, i));
    if (step == decay->count) break;
    kept += (size_t)(((unsigned __int128)hk_level_segment_bytes(level, i) * decay->step[step].kept_q16) >> 16);
  }
  return kept;
}

bool hk_level_next_due(const hk_level_t *level, const hk_decay_t *decay, uint64_t *due_ms) {
  bool is_due = false;
  unsigned step = 0;
  for (unsigned i = level->count; i-- > 0;) {
    step = step_at(decay, step, hk_level_segment_age_ms(level, i));
    if (step == decay->count) break;
    uint64_t over_ms;
    if (__builtin_add_overflow(level->segment[i].since_ms, decay->step[step].until_ms, &over_ms) ||
        __builtin_add_overflow(over_ms, 1, &over_ms))
      continue;
    if (!is_due || over_ms < *due_ms) *due_ms = over_ms;
    is_due = true;
  }
  return is_due;
}

#if HK_DEBUG
void hk_level_check(const hk_level_t *level) {
  HK_REQUIRE(level->count <= HK_LEVEL_SEGMENTS, "the levels have room for their segments");
  for (unsigned i = 0; i < level->count; i++) {
    uint64_t younger_ms = i + 1 == level->count ? level->now_ms : level->segment[i + 1].since_ms;
    HK_REQUIRE(level->segment[i].top_bytes > bottom(level, i),
               "a level lies above the younger ones and what is in use");
    HK_REQUIRE(level->segment[i].since_ms <= younger_ms, "a higher level is older");
  }
}
#endif
