/* heap/attachment.c - L4. See attachment.h; docs/concurrency.md has the argument for each order. */
#include "heap/attachment.h"

#include "space/purge_wakeup.h"

static hk_attachment_state_t state_in(uint32_t word) {
  return (hk_attachment_state_t)(word & HK_ATTACHMENT_STATE_MASK);
}

/* Changes the state if the word is still `*word`, which the caller has read. The word counts its changes, so it differs
 * after any change by another thread. Sets `*word` to the current word. */
static bool change(hk_attachment_t *attachment, uint32_t *word, hk_attachment_state_t state) {
  uint32_t next = (*word | HK_ATTACHMENT_STATE_MASK) + 1 + (uint32_t)state;
  if (!hk_publish_once(&attachment->word, word, next)) return false;
  *word = next;
  return true;
}

/* ---- The thread that has the heap. */

void hk_attachment_show(hk_attachment_t *attachment, hk_heap_variable_t *variable, uint8_t patience) {
  uint32_t word = hk_load_relaxed(&attachment->word); /* no other thread changes it while it is `none` */
  attachment->thread = hk_os_thread_self();
  if (attachment->thread.number == 0) return;
  hk_store_relaxed(&attachment->patience, patience);
  hk_store_relaxed(&attachment->variable, variable);
  (void)change(attachment, &word, hk_attachment_firm);
}

bool hk_attachment_take_up(hk_attachment_t *attachment, hk_heap_variable_t *variable) {
  (void)hk_load_acquire(variable);                    /* with empty_variable: the word is not older than that */
  uint32_t word = hk_load_acquire(&attachment->word); /* with a thread that shows the heap later */
  while (state_in(word) == hk_attachment_examined || state_in(word) == hk_attachment_loose) {
    if (hk_load_relaxed(&attachment->variable) != variable) return false;
    bool is_examined = state_in(word) == hk_attachment_examined;
    if (change(attachment, &word, is_examined ? hk_attachment_taken_up : hk_attachment_firm)) return true;
  }
  return false;
}

void hk_attachment_hide(hk_attachment_t *attachment) {
  uint32_t word = hk_load_acquire(&attachment->word);
  while (state_in(word) != hk_attachment_none) {
    if (state_in(word) == hk_attachment_ended) {
      hk_os_wait((const uint32_t *)&attachment->word, word); /* end_examination wakes it */
      word = hk_load_acquire(&attachment->word);
    } else {
      bool is_examined = state_in(word) == hk_attachment_examined || state_in(word) == hk_attachment_taken_up;
      (void)change(attachment, &word, is_examined ? hk_attachment_ended : hk_attachment_none);
    }
  }
}

/* ---- Another thread. */

static bool sleeps(const hk_os_thread_t *thread, const _Atomic(bool) *is_busy) {
  return hk_os_thread_sleeps(thread) && !hk_load_relaxed((_Atomic(bool) *)is_busy);
}

/* Returns whether the thread has ended and left the heap behind: it armed its exit handler when that could no longer
 * run, in the last round of the destructors of thread-specific data. Its variable may be gone, and is not written. A
 * child that shares its parent's memory does not know the parent's threads. */
static bool has_left(const hk_os_thread_t *thread, const _Atomic(bool) *is_busy) {
  return hk_purge_wakeup_is_allowed() && hk_os_thread_has_ended(thread) && !hk_load_relaxed((_Atomic(bool) *)is_busy);
}

/* Returns true when the examiner sets the state; false when the thread has taken the heap up meanwhile, or ends. */
static bool end_examination(hk_attachment_t *attachment, uint32_t word, hk_attachment_state_t state) {
  if (change(attachment, &word, state)) return true;
  if (state_in(word) == hk_attachment_taken_up && change(attachment, &word, hk_attachment_firm)) return false;
  (void)change(attachment, &word, hk_attachment_none);
  hk_os_wake_one((const uint32_t *)&attachment->word);
  return false;
}

/* Empties the variable. Returns false while it names a part of a named heap or tag instead of the heap (part.h). The
 * thread that puts a part there takes the heap out by an exchange: one of both sees what the other did. */
static HK_NOINLINE bool empty_variable(hk_attachment_t *attachment, hk_heap_t *heap, hk_heap_t *empty) {
  return hk_publish_once(hk_load_relaxed(&attachment->variable), &heap, empty);
}

/* Looks at the thread before the change as well, so that a thread that is awake keeps its heap. The variable of a loose
 * heap's thread is empty, and is not written: the thread may be taking the heap up. */
bool hk_attachment_take(hk_attachment_t *attachment, hk_heap_t *heap, hk_heap_t *empty, const _Atomic(bool) *is_busy) {
  uint32_t word = hk_load_acquire(&attachment->word); /* with the thread that shows the heap */
  hk_attachment_state_t before = state_in(word);
  if (before != hk_attachment_firm && before != hk_attachment_loose) return false;
  if (!change(attachment, &word, hk_attachment_examined)) return false;
  hk_os_thread_t thread = attachment->thread;
  if (!sleeps(&thread, is_busy)) {
    bool is_left = has_left(&thread, is_busy);
    return end_examination(attachment, word, is_left ? hk_attachment_none : before) && is_left;
  }
  if (before == hk_attachment_firm && !empty_variable(attachment, heap, empty)) {
    (void)end_examination(attachment, word, before);
    return false;
  }
  bool slept = sleeps(&thread, is_busy);
  return end_examination(attachment, word, slept ? hk_attachment_none : hk_attachment_loose) && slept;
}

void hk_attachment_loosen(hk_attachment_t *attachment, hk_heap_t *heap, hk_heap_t *empty) {
  uint32_t word = hk_load_acquire(&attachment->word); /* with the thread that shows the heap */
  if (state_in(word) != hk_attachment_firm || !change(attachment, &word, hk_attachment_examined)) return;
  hk_os_thread_t thread = attachment->thread;
  bool is_emptied = hk_os_thread_has_word(&thread, hk_load_relaxed(&attachment->variable), heap) &&
                    empty_variable(attachment, heap, empty);
  (void)end_examination(attachment, word, is_emptied ? hk_attachment_loose : hk_attachment_firm);
}

void hk_attachment_repair(hk_attachment_t *attachment) {
  uint32_t word = hk_load_relaxed(&attachment->word);
  (void)change(attachment, &word, hk_attachment_none);
}
