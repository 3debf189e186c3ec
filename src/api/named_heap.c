/* api/named_heap.c - L5. Named heaps and tags: the public functions over heap/named.h and heap/part.h.
 *
 * A request takes a block from the bin of the thread's part. Where that bin gives none, the thread is switched to its
 * part for the request, which goes the ways of alloc.h.
 */
#include <errno.h>
#include <string.h>

#include "api/alloc.h"
#include "api/guarded.h"
#include "api/lifecycle.h"
#include "api/misuse.h"
#include "api/process_purge.h"
#include "api/sample_hook.h"
#include "api/verify.h"
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "heap/heap_flush.h"
#include "heap/part.h"
#include "heap/remote.h"
#include "heap/sample_countdown.h"
#include "space/large.h"
#include "space/run.h"

/* Returns whether the record is a live heap's, and reports misuse if not. The record of a destroyed heap can be read,
 * because records are never unmapped; it may be another heap's by now. */
static bool is_usable(hk_named_t *named) {
  if (HK_LIKELY(hk_named_kind(named) == hk_named_heap)) return true;
  hk_misuse_heap(named, named->name);
  return false;
}

static hk_named_t *named_of(const hakmem_heap_t *heap) { return (hk_named_t *)heap; }
static hk_named_t *named_of_tag(const hakmem_tag_t *tag) { return (hk_named_t *)tag; }
static hakmem_heap_t *heap_of(hk_named_t *named) { return (hakmem_heap_t *)named; }

/* ---- Create. */

/* Copies the options that the caller's version of the struct has. Returns false where `size` is not set: the limits
 * would be lost. */
static bool read_options(hakmem_heap_options_t *options, const hakmem_heap_options_t *given) {
  *options = (hakmem_heap_options_t){0};
  if (given == NULL) return true;
  if (given->size < sizeof given->size) return false;
  memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
  return true;
}

static void *fail_invalid(void) {
  errno = EINVAL;
  return NULL;
}

static hk_named_t *create(hk_named_kind_t kind, const char *name) {
  if (name == NULL) return fail_invalid();
  hk_lifecycle_start();
  hk_named_t *named = hk_named_create(kind, name);
  return named != NULL ? named : hk_alloc_fail();
}

hakmem_heap_t *hakmem_heap_create(const char *name, const hakmem_heap_options_t *given) {
  hakmem_heap_options_t options;
  if (!read_options(&options, given)) return fail_invalid();
  hk_named_t *named = create(hk_named_heap, name);
  if (named == NULL) return NULL;
  hk_store_relaxed(&named->soft_bytes, options.soft_limit);
  hk_store_relaxed(&named->hard_bytes, options.hard_limit);
  named->callback = options.on_soft_limit;
  named->context = options.context;
  named->reports_leaks = options.report_leaks != 0;
  return heap_of(named);
}

/* ---- Requests. */

/* Switches the calling thread to its part. Before, the thread attaches its own heap, and starts the work of the process
 * that is due. */
static hk_part_switch_t enter(hk_named_t *named) {
  if (!is_usable(named)) return (hk_part_switch_t){.part = NULL};
  if (HK_UNLIKELY(hk_thread_own() == HK_EMPTY_HEAP)) {
    hk_thread_lease_t lease = hk_lifecycle_enter();
    if (lease.heap != NULL) hk_thread_leave(lease);
  }
  hk_alloc_consider_work();
  return hk_part_enter(named);
}

static void leave(hk_named_t *named, const hk_part_switch_t *entered) {
  hk_part_leave(entered);
  hk_alloc_follow_soft_limit(named);
}

static HK_NOINLINE void *malloc_slow(hk_named_t *named, size_t size) {
  hk_part_switch_t entered = enter(named);
  if (entered.part == NULL) return hk_alloc_fail();
  void *block = hk_alloc(size);
  leave(named, &entered);
  return block;
}

void *hakmem_heap_malloc(hakmem_heap_t *heap, size_t size) {
  hk_named_t *named = named_of(heap);
  hk_heap_t *part = hk_part_find(named);
  void *block = HK_LIKELY(part != NULL) ? hk_alloc_pop(part, size) : NULL;
  if (HK_UNLIKELY(block == NULL)) return malloc_slow(named, size);
  hk_count_request(size); /* the slow way counts its own */
  return block;
}

void *hakmem_heap_calloc(hakmem_heap_t *heap, size_t count, size_t size) {
  hk_named_t *named = named_of(heap);
  hk_part_switch_t entered = enter(named);
  if (entered.part == NULL) return hk_alloc_fail();
  void *block = hk_calloc(count, size);
  leave(named, &entered);
  return block;
}

static void *move_here(hk_named_t *named, const hk_finding_t *finding, void *block, size_t size) {
  size_t bytes = hk_usable_size(block);
  if (finding->verdict != hk_verdict_live) return hk_alloc_fail(); /* misuse, which hk_usable_size has reported */
  void *moved = hakmem_heap_malloc(heap_of(named), size);
  if (moved == NULL) return NULL;
  memcpy(moved, block, size < bytes ? size : bytes);
  hk_free(block);
  return moved;
}

void *hakmem_heap_realloc(hakmem_heap_t *heap, void *block, size_t size) {
  hk_named_t *named = named_of(heap);
  if (block == NULL) return hakmem_heap_malloc(heap, size);
  hk_finding_t finding = hk_verify(block);
  bool is_here = finding.verdict == hk_verdict_live && hk_finding_named(&finding) == named;
  if (!is_here && size > 0) return move_here(named, &finding, block, size);
  return hk_realloc(block, size);
}

void *hakmem_heap_aligned_alloc(hakmem_heap_t *heap, size_t alignment, size_t size) {
  hk_named_t *named = named_of(heap);
  if (!hk_is_power_of_two(alignment)) return fail_invalid();
  hk_part_switch_t entered = enter(named);
  if (entered.part == NULL) return hk_alloc_fail();
  void *block = hk_alloc_aligned(alignment, size);
  leave(named, &entered);
  return block;
}

char *hakmem_heap_strdup(hakmem_heap_t *heap, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = hakmem_heap_malloc(heap, bytes);
  return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* ---- The end. */

typedef struct {
  uint64_t blocks;
  uint64_t bytes;
} live_t;

/* Counts the blocks of a part that are in use. Afterwards no bin has blocks, and each span counts its own. */
static void count_live(hk_heap_t *part, void *context) {
  live_t *live = context;
  (void)hk_remote_drain(part);
  hk_sample_countdown_recall(part);
  hk_misuse_report_damaged(part);
  hk_heap_deactivate_all(part);
  for (const hk_list_t *node = part->part.spans.next; node != &part->part.spans; node = node->next) {
    const hk_slab_t *span = HK_CONTAINER_OF(node, hk_slab_t, part_link);
    bool is_mid = hk_class_is_mid(span->class_index);
    unsigned count = is_mid ? span->live : span->live - (span->own.start - span->own.countdown);
    live->blocks += count;
    live->bytes += (uint64_t)count * span->block_bytes;
  }
}

static void free_one_larger(hk_slab_t *slab, void *block) {
  if (hk_slab_state(slab) == hk_slab_run) {
    if (hk_run_free(slab)) hk_stat_add(hk_stat_run_free, 1);
  } else if (hk_large_free(slab, block)) {
    hk_stat_add(hk_stat_large_free, 1);
  }
}

static void free_larger(hk_named_t *named, live_t *live) {
  for (void *block; (block = hk_named_take_larger(named)) != NULL;) {
    hk_slab_t *slab = hk_slab_of(block);
    live->blocks++;
    live->bytes += hk_load_relaxed(&slab->bytes);
    free_one_larger(slab, block);
  }
}

static void free_guarded(hk_named_t *named, live_t *live) {
  uint64_t bytes;
  live->blocks += hk_guarded_free_named(named, &bytes);
  live->bytes += bytes;
}

void hakmem_heap_destroy(hakmem_heap_t *heap) {
  if (heap == NULL) return;
  hk_named_t *named = named_of(heap);
  if (!is_usable(named)) return;
  live_t live = {0};
  if (named->reports_leaks) hk_sample_hook_print_named(named);
  hk_sample_hook_forget_named(named);
  free_larger(named, &live);
  free_guarded(named, &live);
  hk_part_end_all(named, named->reports_leaks ? count_live : NULL, &live);
  if (named->reports_leaks && live.blocks > 0) hk_misuse_leaked_heap(named->name, live.blocks, live.bytes);
  hk_named_drop(named);
}

size_t hakmem_heap_collect(hakmem_heap_t *heap) {
  return heap != NULL && is_usable(named_of(heap)) ? hk_process_purge_named(named_of(heap)) : 0;
}

/* ---- Questions. */

static hk_named_t *named_of_block(const void *block, hk_named_kind_t kind) {
  hk_finding_t finding = hk_verify_any(block);
  hk_named_t *named = finding.verdict == hk_verdict_live ? hk_finding_named(&finding) : NULL;
  return named != NULL && hk_named_kind(named) == kind ? named : NULL;
}

static void fill_usage(hk_named_t *named, hakmem_heap_usage_t *out, size_t size) {
  hakmem_heap_usage_t usage = {
      .bytes = hk_load_relaxed(&named->bytes),
      .peak_bytes = hk_load_relaxed(&named->peak_bytes),
      .larger_bytes = hk_load_relaxed(&named->larger_bytes),
      .larger_blocks = hk_load_relaxed(&named->larger_count),
      .soft_limit = hk_load_relaxed(&named->soft_bytes),
      .hard_limit = hk_load_relaxed(&named->hard_bytes),
      .soft_count = hk_load_relaxed(&named->soft_count),
      .refused_count = hk_load_relaxed(&named->refused_count),
  };
  memset(out, 0, size);
  memcpy(out, &usage, size < sizeof usage ? size : sizeof usage);
}

/* The public declarations say that the functions do not read what `block` points to. hk_verify_any does where it is a
 * block. The compiler is not to see that both are the same. */
hakmem_heap_t *hakmem_heap_of(const void *block) {
  const void *start = block;
  HK_FORGET(start);
  return heap_of(named_of_block(start, hk_named_heap));
}

const char *hakmem_heap_name(const hakmem_heap_t *heap) { return named_of(heap)->name; }
void hakmem_heap_usage(const hakmem_heap_t *heap, hakmem_heap_usage_t *out, size_t size) {
  fill_usage(named_of(heap), out, size);
}

/* ---- Tags. */

hakmem_tag_t *hakmem_tag_create(const char *name) { return (hakmem_tag_t *)create(hk_named_tag, name); }

void hakmem_tag_limit(hakmem_tag_t *tag, size_t soft_limit, size_t hard_limit) {
  hk_store_relaxed(&named_of_tag(tag)->soft_bytes, soft_limit);
  hk_store_relaxed(&named_of_tag(tag)->hard_bytes, hard_limit);
}

void hakmem_tag_push(hakmem_tag_t *tag) {
  if (HK_UNLIKELY(tag == NULL)) hk_lifecycle_start(); /* no hakmem_tag_create has */
  hk_part_push_tag(named_of_tag(tag));
}
void hakmem_tag_pop(void) { hk_part_pop_tag(); }
void hakmem_tag_remove(hakmem_tag_t *tag) { hk_part_remove_tag(named_of_tag(tag)); }

hakmem_tag_t *hakmem_tag_of(const void *block) {
  const void *start = block;
  HK_FORGET(start);
  return (hakmem_tag_t *)named_of_block(start, hk_named_tag);
}
const char *hakmem_tag_name(const hakmem_tag_t *tag) { return named_of_tag(tag)->name; }
void hakmem_tag_usage(const hakmem_tag_t *tag, hakmem_heap_usage_t *out, size_t size) {
  fill_usage(named_of_tag(tag), out, size);
}
