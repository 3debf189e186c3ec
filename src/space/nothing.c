/* space/nothing.c - L3. See nothing.h. Slabs of inaccessible addresses are mapped one after the other, and stay. */
#include "space/nothing.h"

#include <stdint.h>

#include "base/atomic.h"
#include "os/os.h"
#include "space/live_bit.h"
#include "space/region_map.h"

/* Chosen: beyond a million blocks of no bytes a request gets an ordinary one. */
#define SLABS_MAX 256u

static _Atomic(uintptr_t) slabs[SLABS_MAX]; /* 0: not mapped yet */
/* Where the last address was found: a word of a slab. A hint. */
static _Atomic(uint32_t) last_slab, last_word;

/* Sets the lowest clear bit of a word. Returns the bit's number, or 64. */
static unsigned take_bit(hk_live_words_t *words) {
  for (uint64_t live = hk_load_relaxed(&words->live); live != UINT64_MAX; live = hk_load_relaxed(&words->live)) {
    unsigned bit = (unsigned)__builtin_ctzll(~live);
    uint64_t mask = (uint64_t)1 << bit;
    if ((hk_or_relaxed(&words->live, mask) & mask) == 0) return bit;
  }
  return 64;
}

static void *take_from(uintptr_t slab, unsigned first_word) {
  hk_live_words_t *words = hk_live_bit_of((const void *)slab).words;
  for (unsigned i = 0; i < HK_LIVE_WORDS_PER_SLAB; i++) {
    unsigned word = (first_word + i) % HK_LIVE_WORDS_PER_SLAB, bit = take_bit(&words[word]);
    if (bit == 64) continue;
    hk_store_relaxed(&last_word, word);
    return (void *)(slab + (64 * word + bit) * HK_BLOCK_ALIGNMENT);
  }
  return NULL;
}

static bool map_slab(_Atomic(uintptr_t) *slab) {
  void *start = hk_os_reserve_inaccessible(HK_SLAB_BYTES, HK_SLAB_BYTES);
  if (start == NULL) return false;
  if (hk_region_map_enter(start, HK_SLAB_BYTES)) {
    hk_live_bit_clear_slab((uintptr_t)start); /* other blocks may have been at these addresses */
    hk_slab_set_state(hk_slab_of(start), hk_slab_nothing);
    uintptr_t none = 0;
    if (hk_publish_once(slab, &none, (uintptr_t)start)) return true;
    hk_slab_set_state(hk_slab_of(start), hk_slab_none); /* another thread was first */
  }
  (void)hk_os_unmap(start, HK_SLAB_BYTES);
  return hk_load_acquire(slab) != 0;
}

void *hk_nothing_alloc(void) {
  unsigned first = hk_load_relaxed(&last_slab);
  for (unsigned i = 0; i < SLABS_MAX; i++) {
    unsigned number = (first + i) % SLABS_MAX;
    if (hk_load_acquire(&slabs[number]) == 0 && !map_slab(&slabs[number])) return NULL;
    void *block = take_from(hk_load_acquire(&slabs[number]), hk_load_relaxed(&last_word));
    if (block == NULL) continue;
    hk_store_relaxed(&last_slab, number);
    return block;
  }
  return NULL;
}

bool hk_nothing_free(const void *block) {
  hk_live_bit_t bit = hk_live_bit_of(block);
  return (uintptr_t)block % HK_BLOCK_ALIGNMENT == 0 && (hk_and_relaxed(&bit.words->live, ~bit.mask) & bit.mask) != 0;
}
