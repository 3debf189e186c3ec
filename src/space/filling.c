/* space/filling.c - L3. See filling.h. In a child of fork the numbers may be those of a moment when a thread that is gone was
 * changing them: they decide what is made resident and nothing else. */
#include "space/filling.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/fill.h"
#include "policy/stat.h"

/* Where the block starts that is looked at; 0: none is. Written under hk_lock_space, read without. */
static _Atomic(uintptr_t) sample_start;

/* Guarded by hk_lock_space. */
static struct {
  hk_fill_t sizes;
  size_t sample_bytes;
  unsigned looks;
} filling;

/* Whoever has the block may free it meanwhile, and another may get the addresses: then the verdict is about that one. */
static void look(bool is_end) {
  hk_lock_acquire(hk_lock_space);
  uintptr_t start = hk_load_relaxed(&sample_start);
  size_t bytes = filling.sample_bytes;
  hk_lock_release(hk_lock_space);
  if (start == 0) return;
  bool is_filled = hk_os_resident_bytes((void *)start, bytes) == bytes;
  hk_lock_acquire(hk_lock_space);
  if (hk_load_relaxed(&sample_start) == start && filling.sample_bytes == bytes) {
    bool has_told = is_filled || is_end || ++filling.looks == HK_FILLING_LOOKS;
    if (has_told) {
      hk_fill_note(&filling.sizes, bytes, is_filled);
      hk_store_relaxed(&sample_start, 0);
    }
  }
  hk_lock_release(hk_lock_space);
}

static hk_fill_wish_t find_wish(uintptr_t start, size_t bytes) {
  hk_lock_acquire(hk_lock_space);
  hk_fill_wish_t wish = hk_fill_wish(&filling.sizes, bytes);
  if (wish == hk_fill_sample && hk_load_relaxed(&sample_start) == 0) {
    filling.sample_bytes = bytes;
    filling.looks = 0;
    hk_store_relaxed(&sample_start, start);
  }
  hk_lock_release(hk_lock_space);
  return wish;
}

void hk_filling_note_new(uintptr_t start, size_t bytes) {
  if (bytes > HK_FILL_MOST_BYTES) return;
  bytes = hk_align_up(bytes, hk_os_page_size());
  if (hk_load_relaxed(&sample_start) != 0) look(false);
  if (find_wish(start, bytes) != hk_fill_prefault) return;
  if (hk_os_prefault((void *)start, bytes)) hk_stat_add(hk_stat_prefault, bytes);
}

void hk_filling_note_end(uintptr_t start) {
  if (HK_UNLIKELY(hk_load_relaxed(&sample_start) == start)) look(true);
}
