/* api/sampled.c - L5. See sampled.h. */
#include "api/sampled.h"

#include "api/lifecycle.h"
#include "api/sample_hook.h"
#include "api/small_block.h"
#include "base/random.h"
#include "heap/sample_countdown.h"
#include "policy/sampling.h"

/* ---- Blocks up to 32 KiB. */

/* Takes a block that a closed bin still has when another thread adopts its heap. */
static void *take_leftover(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  if (HK_LIKELY(bin->free == HK_LIST_END)) return NULL;
  /* The last refill of an adopted heap's list is unknown. */
  if (hk_class_is_mid(class_index)) heap->state[class_index].carved_zero = false;
  void *block = hk_small_pop(heap->bin, class_index);
  if (block == NULL) hk_small_drop_damaged(heap, bin, class_index);
  return block;
}

/* Takes a block that is no sample, though it may have been due. The remote frees that a refill collects can close the
 * bin of a tiny class. The bin then keeps a counted piece, and the block is part of it. A closed bin of a borrowed heap
 * gets no piece. */
static void *take_unsampled(hk_thread_lease_t lease, unsigned class_index, bool is_due) {
  hk_heap_t *heap = lease.heap;
  bool was_open = hk_sample_countdown_is_open(heap, class_index);
  void *block = hk_small_take(heap, class_index);
  if (block == NULL && hk_class_is_mid(class_index)) hk_sample_countdown_next_piece(heap, class_index);
  if (block == NULL || (was_open && !hk_sample_countdown_is_open(heap, class_index))) return block;
  hk_sample_countdown_count(heap, class_index, is_due);
  if (was_open || !lease.is_borrowed) hk_sample_countdown_next_piece(heap, class_index);
  return block;
}

void *hk_sampled_take(hk_thread_lease_t lease, unsigned class_index, hk_sample_choice_t *choice) {
  hk_heap_t *heap = lease.heap;
  void *block = take_leftover(heap, class_index);
  if (block != NULL) return block;
  hk_sample_choice_t due;
  bool is_due = hk_sample_countdown_is_due(heap, class_index, &due);
  if (!is_due || choice == NULL || hk_sample_hook_is_inside()) return take_unsampled(lease, class_index, is_due);
  *choice = due;
  /* For the next request: */
  if (!lease.is_borrowed || hk_class_is_mid(class_index)) hk_sample_countdown_next_piece(heap, class_index);
  return NULL;
}

/* ---- Larger blocks. */

/* Decides whether a block is a sample after its resize. */
typedef bool (*decide_t)(hk_heap_t *heap, size_t old_bytes, size_t new_bytes);

/* Returns the decision for the thread's heap, and sets `*rate` to that heap's. Returns false where the profile does not
 * sample the heap. */
static bool decide(decide_t ask, size_t old_bytes, size_t new_bytes, uint64_t *rate) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return false;
  hk_sample_countdown_follow(lease.heap);
  bool answer = false;
  bool is_sampled = hk_heap_is_sampled(lease.heap) && hk_sample_countdown_rate(lease.heap) != 0;
  if (is_sampled && !hk_sample_hook_is_inside()) {
    *rate = hk_sample_countdown_rate(lease.heap);
    answer = ask(lease.heap, old_bytes, new_bytes);
  }
  hk_thread_leave(lease);
  return answer;
}

/* Returns whether the bytes that a resize adds reach the next sample. */
static bool is_hit(hk_heap_t *heap, size_t old_bytes, size_t new_bytes) {
  return hk_sample_countdown_large_is_due(heap, new_bytes - old_bytes);
}

/* Returns whether a block that is a sample stays one after a resize. */
static bool stays_hit(hk_heap_t *heap, size_t old_bytes, size_t new_bytes) {
  if (new_bytes >= old_bytes) return true;
  uint64_t rate = hk_sample_countdown_rate(heap);
  double part = hk_sampling_chance(new_bytes, rate) / hk_sampling_chance(old_bytes, rate);
  return (double)hk_random(&heap->countdowns->random) * 0x1p-64 < part;
}

hk_sample_choice_t hk_sampled_choose_large(size_t bytes) {
  hk_sample_choice_t choice = {.weight_q16 = 0};
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return choice;
  hk_sample_countdown_follow(lease.heap);
  if (hk_heap_is_sampled(lease.heap) && !hk_sample_hook_is_inside()) {
    uint64_t rate = hk_sample_countdown_rate(lease.heap);
    choice.is_guarded = hk_sample_countdown_large_is_guarded(lease.heap);
    if (rate != 0 && is_hit(lease.heap, 0, bytes)) choice.weight_q16 = hk_sampling_weight(bytes, rate);
  }
  hk_thread_leave(lease);
  return choice;
}

uint64_t hk_sampled_weight_after(uintptr_t address, bool is_known, size_t old_bytes, size_t new_bytes) {
  hk_sample_t sample = {.weight = {.block_bytes = old_bytes}};
  if (is_known) (void)hk_sample_hook_find(address, &sample);
  bool is_sample = sample.weight.weight_q16 != 0;
  if (!hk_sampling_has_profile()) return sample.weight.weight_q16;
  size_t before = sample.weight.block_bytes;
  if (!is_sample && new_bytes <= before) return 0;
  uint64_t rate;
  if (!decide(is_sample ? stays_hit : is_hit, before, new_bytes, &rate)) return 0;
  return hk_sampling_weight(new_bytes, rate);
}
