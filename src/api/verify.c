/* api/verify.c - L5. See verify.h. */
#include "api/verify.h"

#include "api/sample_hook.h"
#include "hakmem/hakmem.h"
#include "heap/named.h"
#include "heap/sample_mark.h"
#include "heap/search.h"
#include "heap/span.h"
#include "heap/thread.h"
#include "space/guard_slot.h"
#include "space/live_bit.h"
#include "space/region_map.h"
#include "space/short_span.h"
#include "space/superslab.h"

/* Classifies an address of a span by its place alone: inside a block, or behind the last block of its slab. Behind the
 * mapped bytes of a short span it is foreign: the program may have mapped something there. */
static hk_finding_t place_in_span(hk_slab_t *span, const hk_slab_t *slab, uintptr_t value, size_t bytes) {
  uintptr_t offset = value % HK_SLAB_BYTES;
  hk_finding_t finding = {.verdict = hk_verdict_foreign, .start = value};
  if (hk_short_span_is_behind(span, slab, offset)) return finding;
  finding.slab = span;
  finding.verdict = hk_verdict_slab_end;
  if (offset >= HK_SLAB_BYTES / bytes * bytes) return finding;
  return (hk_finding_t){
      .verdict = hk_verdict_interior, .slab = span, .start = value - offset % bytes, .bytes = bytes - HK_CANARY_BYTES};
}

/* `may_go`: another thread may free the block at the address, and unmap its memory, at this moment. */
typedef enum { stays, may_go } stay_t;

/* Returns whether a block may be free whose memory another thread may unmap at this moment. The purge thread alone
 * takes spans from a heap that a thread has (heap/purge_drain.h), and claims them before. So a thread that has claimed
 * its own heap's spans reads their blocks plainly, without system calls. */
static bool may_be_free_if_there(hk_slab_t *span, const hk_block_t *block) {
  hk_heap_t *own = hk_thread_own();
  bool is_own = own != HK_EMPTY_HEAP && hk_slab_owner(span) == own && hk_heap_claim_spans(own);
  if (!is_own) return hk_search_may_be_free(block);
  bool is_there = hk_slab_owner(span) == own;
  bool may_be = is_there && !hk_block_is_in_use(block);
  hk_heap_unclaim_spans(own);
  return may_be;
}

static bool may_be_free(hk_slab_t *span, const hk_block_t *block, stay_t stay) {
  bool may_be_gone = HK_SAFETY == 1 && stay == may_go; /* other builds do not read the block */
  return may_be_gone ? may_be_free_if_there(span, block) : !hk_block_is_in_use(block);
}

HK_INLINE hk_finding_t verify_small(hk_slab_t *slab, uintptr_t value, stay_t stay) {
  hk_slab_t *span = hk_load_racy(&slab->head);
  hk_finding_t gone = {.verdict = hk_verdict_free, .slab = slab, .start = value};
  if (HK_UNLIKELY(span == NULL)) return gone; /* another thread is describing the slab's first span */
  size_t bytes = hk_load_racy(&span->block_bytes);
  uintptr_t offset = value & (HK_SLAB_BYTES - 1);
  /* A query may name any address: another thread has released the span meanwhile, and a run begins there. It may hold a
   * sample. */
  if (HK_UNLIKELY(bytes < HK_BLOCK_ALIGNMENT)) return gone;
  if (!hk_starts_has(&slab->starts, (uint32_t)offset)) return place_in_span(span, slab, value, bytes);
  const hk_block_t *block = (const hk_block_t *)value;
  bool has_block = hk_span_has_block(span, block);
  if (HK_UNLIKELY(!has_block)) {
    hk_finding_t there = place_in_span(span, slab, value, bytes);
    if (there.verdict != hk_verdict_interior) return there;
  }
  bool is_free = !has_block || (may_be_free(span, block, stay) && hk_search_free(span, block));
  if (stay == may_go && hk_slab_state(slab) != hk_slab_small) return gone; /* before its words could be read */
  return (hk_finding_t){.verdict = is_free ? hk_verdict_free_block : hk_verdict_live,
                        .slab = span,
                        .start = value,
                        .bytes = bytes - HK_CANARY_BYTES};
}

static hk_finding_t verify_whole(hk_slab_t *head, uintptr_t start, uintptr_t value) {
  return (hk_finding_t){.verdict = value == start ? hk_verdict_live : hk_verdict_interior,
                        .slab = head,
                        .start = start,
                        .bytes = hk_load_relaxed(&head->bytes)};
}

/* A block of no bytes in a hardened build (space/nothing.h). The addresses between it and the next one count as
 * inside it. */
static hk_finding_t verify_nothing(hk_slab_t *slab, uintptr_t value) {
  uintptr_t start = value - value % HK_BLOCK_ALIGNMENT;
  bool is_live = HK_HARDENED && hk_live_bit_is_set(hk_live_bit_of((const void *)start));
  hk_verdict_t of_start = is_live ? hk_verdict_live : hk_verdict_free_block;
  return (hk_finding_t){.verdict = value == start ? of_start : hk_verdict_interior, .slab = slab, .start = start};
}

/* Returns where a run begins. Its superslab may end at this moment, so the descriptors alone tell. */
static uintptr_t run_start(const hk_slab_t *head, const hk_slab_t *slab, uintptr_t value) {
  return (value & ~(HK_SLAB_BYTES - 1)) - ((uintptr_t)slab - (uintptr_t)head) / sizeof *slab * HK_SLAB_BYTES;
}

HK_INLINE hk_finding_t verify_unsampled(const void *address, stay_t stay) {
  uintptr_t value = (uintptr_t)address;
  hk_finding_t foreign = {.verdict = hk_verdict_foreign, .start = value};
  if (value >> HK_ADDRESS_BITS != 0) return foreign;
  hk_slab_t *slab = hk_slab_of_any(value);
  hk_finding_t free_memory = {.verdict = hk_verdict_free, .slab = slab, .start = value};
  hk_slab_t *head;
  switch (hk_slab_state(slab)) {
    case hk_slab_small:
      return verify_small(slab, value, stay);
    case hk_slab_run:
      return verify_whole(slab, run_start(slab, slab, value), value);
    case hk_slab_run_tail:
      head = hk_load_racy(&slab->head);
      if (head == NULL || hk_slab_state(head) != hk_slab_run) return free_memory;
      return verify_whole(head, run_start(head, slab, value), value);
    case hk_slab_large: /* a block of whole pages may end in its first slab */
      if (value % HK_SLAB_BYTES >= hk_load_relaxed(&slab->bytes)) return foreign;
      return verify_whole(slab, value & ~(HK_SLAB_BYTES - 1), value);
    case hk_slab_nothing:
      return verify_nothing(slab, value);
    case hk_slab_free:
      return free_memory;
    default:
      return foreign;
  }
}

static hk_finding_t live_sample(const hk_sample_t *sample) {
  uintptr_t start = sample->address - sample->offset;
  hk_slab_t *slab = hk_slab_of((void *)start);
  bool is_small = hk_slab_state(slab) == hk_slab_small;
  size_t bytes = is_small ? slab->block_bytes - HK_CANARY_BYTES : hk_load_relaxed(&slab->bytes);
  return (hk_finding_t){.verdict = hk_verdict_live,
                        .slab = is_small ? slab->head : slab,
                        .start = start,
                        .bytes = bytes - sample->offset,
                        .offset = sample->offset};
}

/* Finds the bytes from the block around the address, if that block still begins where the sample's did. */
static hk_finding_t freed_sample(const hk_sample_t *sample, const hk_finding_t *around) {
  bool is_there = around->verdict == hk_verdict_interior && around->start == sample->address - sample->offset;
  return (hk_finding_t){.verdict = hk_verdict_free_block,
                        .slab = around->slab,
                        .start = sample->address,
                        .bytes = is_there ? around->bytes - sample->offset : sample->weight.block_bytes};
}

/* Finds the guarded block at the address, or nearest to it. Each address but the block's start counts as inside it. */
static bool find_guarded(uintptr_t value, hk_finding_t *finding) {
  hk_guard_view_t view;
  if (!hk_guard_slot_find(value, &view)) return false;
  bool is_freed = view.state == hk_guard_freed;
  *finding = (hk_finding_t){.verdict = value != view.start ? hk_verdict_interior
                                       : is_freed          ? hk_verdict_free_block
                                                           : hk_verdict_live,
                            .slab = hk_slab_of((const void *)value),
                            .start = view.start,
                            .bytes = view.bytes,
                            .is_guarded = true,
                            .guarded_named = view.named};
  return true;
}

/* Returns whether a live block holds a sample. The block's memory is read only where it stays. */
static bool holds_sample(const hk_finding_t *finding, stay_t stay) {
  hk_sample_t sample;
  bool may_hold = stay == may_go || hk_sample_mark_may_be_on(finding->slab, (void *)finding->start);
  return HK_UNLIKELY(may_hold) && hk_sample_hook_find_in(finding->start, finding->bytes, &sample);
}

/* The address of a sampled block is no block's start. So it is looked up where the descriptors say "interior", and also
 * where they say "foreign": with a large alignment, a large block has no descriptor there. The start of the block that
 * holds it is not the program's, and counts as inside that block. Inline: a small program has the code for one `stay`
 * alone resident. */
HK_INLINE hk_finding_t verify(const void *address, stay_t stay) {
  hk_finding_t finding = verify_unsampled(address, stay);
  if (finding.verdict == hk_verdict_live && holds_sample(&finding, stay)) {
    finding.verdict = hk_verdict_interior;
    return finding;
  }
  if (finding.verdict != hk_verdict_interior && finding.verdict != hk_verdict_foreign) return finding;
  bool may_be_guarded = finding.verdict == hk_verdict_foreign && hk_guard_slot_has_pool();
  if (HK_UNLIKELY(may_be_guarded) && find_guarded((uintptr_t)address, &finding)) return finding;
  hk_sample_t sample;
  switch (hk_sample_hook_find((uintptr_t)address, &sample)) {
    case hk_sample_live:
      return live_sample(&sample);
    case hk_sample_freed:
      return freed_sample(&sample, &finding);
    default:
      return finding;
  }
}

hk_finding_t hk_verify(const void *address) { return verify(address, stays); }

hk_finding_t hk_verify_any(const void *address) { return verify(address, may_go); }

hk_named_t *hk_finding_named(const hk_finding_t *finding) {
  return finding->is_guarded ? finding->guarded_named : hk_named_of_slab(finding->slab);
}

hk_finding_t hk_verify_thoroughly(const void *address) {
  hk_finding_t finding = hk_verify_any(address);
  if (finding.verdict != hk_verdict_foreign) return finding;
  uintptr_t value = (uintptr_t)address, start;
  if (value >> HK_ADDRESS_BITS != 0) return finding;
  hk_slab_t *slab = hk_region_map_find_below(value, &start);
  if (slab == NULL) return finding;
  hk_slab_state_t state = hk_slab_state(slab);
  if (state == hk_slab_large) return verify_whole(slab, start, value);
  if (state == hk_slab_free && slab->superslab == NULL)
    return (hk_finding_t){.verdict = hk_verdict_free, .slab = slab, .start = value};
  return finding;
}

/* The public declaration says that the function does not read what `address` points to. hk_verify_any reads it where it
 * is a block: the compiler is not to see that both are the same. */
bool hakmem_check_owned(const void *address) {
  const void *start = address;
  HK_FORGET(start);
  return hk_verify_any(start).verdict == hk_verdict_live;
}
