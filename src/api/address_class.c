/* api/address_class.c - L5. See address_class.h. Every address has a descriptor that can be read, whatever happens to
 * its memory. Other threads may write to a descriptor meanwhile. So each field is read once, and checked before it is
 * used: a head lies near its slab, a block has a valid size. */
#include "api/address_class.h"

#include "heap/search.h"
#include "heap/span.h"
#include "policy/size_class.h"
#include "space/live_bit.h"
#include "space/region_map.h"
#include "space/short_span.h"

static uintptr_t slab_start_of(uintptr_t address) { return address & ~(HK_SLAB_BYTES - 1); }

static hk_address_class_t nowhere(hk_address_kind_t kind, uintptr_t address) {
  return (hk_address_class_t){.kind = kind, .start = slab_start_of(address)};
}

/* Finds the head of the span or run that the slab at `start` belongs to. Returns false when the descriptor is
 * inconsistent. */
static bool find_head(hk_slab_t *slab, uintptr_t start, hk_address_class_t *where) {
  hk_slab_t *head = hk_load_racy(&slab->head);
  uintptr_t distance = (uintptr_t)slab - (uintptr_t)head;
  if (head == NULL || distance >= HK_SUPERSLAB_SLABS * sizeof *head || distance % sizeof *head != 0) return false;
  where->head = head;
  where->head_start = start - distance / sizeof *head * HK_SLAB_BYTES;
  return true;
}

static hk_address_kind_t kind_of_block(hk_slab_t *span, const hk_block_t *block) {
  if (!hk_span_has_block(span, block)) return hk_address_uncarved;
  return hk_search_may_be_free(block) && hk_search_free(span, block) ? hk_address_free_block : hk_address_live_block;
}

static hk_address_class_t class_in_span(hk_slab_t *slab, uintptr_t address) {
  hk_address_class_t where = nowhere(hk_address_free, address);
  size_t bytes = hk_load_racy(&slab->block_bytes);
  uintptr_t slab_start = where.start;
  if (!find_head(slab, slab_start, &where)) return where;
  if (bytes < HK_BLOCK_ALIGNMENT || bytes > HK_MID_MAX_BYTES) return where;
  if (hk_short_span_is_behind(where.head, slab, address - slab_start)) {
    size_t used = hk_short_span_last_bytes(where.head) / bytes * bytes;
    return (hk_address_class_t){.kind = hk_address_foreign, .start = slab_start + used};
  }
  uintptr_t used = HK_SLAB_BYTES / bytes * bytes;
  where.bytes = bytes;
  if (address - slab_start >= used) {
    where.kind = hk_address_slab_end;
    where.start = slab_start + used;
  } else {
    where.start = address - (address - slab_start) % bytes;
    where.kind = kind_of_block(where.head, (const hk_block_t *)where.start);
  }
  return where;
}

static hk_address_class_t class_in_run(hk_slab_t *slab, uintptr_t address) {
  hk_address_class_t where = nowhere(hk_address_free, address);
  if (hk_slab_state(slab) == hk_slab_run) {
    where.head = slab;
    where.head_start = where.start;
  } else if (!find_head(slab, where.start, &where) || hk_slab_state(where.head) != hk_slab_run) {
    return nowhere(hk_address_free, address);
  }
  where.kind = hk_address_live_block;
  where.start = where.head_start;
  where.bytes = hk_load_relaxed(&where.head->bytes);
  return where;
}

/* Finds the end of a block of whole pages in the address's slab. */
static hk_address_class_t class_behind_large(uintptr_t address) {
  hk_address_class_t where = nowhere(hk_address_foreign, address);
  uintptr_t start;
  hk_slab_t *slab = hk_region_map_find_below(where.start, &start);
  if (slab != NULL && hk_slab_state(slab) == hk_slab_large) where.start = start + hk_load_relaxed(&slab->bytes);
  return where;
}

static hk_address_class_t class_in_large(uintptr_t address) {
  uintptr_t start;
  hk_slab_t *slab = hk_region_map_find_below(address, &start);
  if (slab == NULL) return class_behind_large(address);
  hk_slab_state_t state = hk_slab_state(slab);
  if (state == hk_slab_large)
    return (hk_address_class_t){.kind = hk_address_live_block, .start = start, .bytes = hk_load_relaxed(&slab->bytes)};
  bool is_free_extent = state == hk_slab_free && hk_load_racy(&slab->superslab) == NULL;
  return nowhere(is_free_extent ? hk_address_free : hk_address_foreign, address);
}

/* A block of no bytes in a hardened build (space/nothing.h). */
static hk_address_class_t class_in_nothing(uintptr_t address) {
  uintptr_t start = address - address % HK_BLOCK_ALIGNMENT;
  bool is_live = HK_HARDENED && hk_live_bit_is_set(hk_live_bit_of((const void *)start));
  return (hk_address_class_t){.kind = is_live ? hk_address_live_block : hk_address_free_block, .start = start};
}

static hk_address_class_t class_of_whole(uintptr_t address) {
  if (address >> HK_ADDRESS_BITS != 0) return (hk_address_class_t){.kind = hk_address_foreign, .start = address};
  hk_slab_t *slab = hk_slab_of_any(address);
  switch (hk_slab_state(slab)) {
    case hk_slab_small:
      return class_in_span(slab, address);
    case hk_slab_run:
    case hk_slab_run_tail:
      return class_in_run(slab, address);
    case hk_slab_free:
      return nowhere(hk_address_free, address);
    case hk_slab_nothing:
      return class_in_nothing(address);
    default:
      return class_in_large(address);
  }
}

hk_address_class_t hk_address_class_of(uintptr_t address) {
  hk_address_class_t where = class_of_whole(address);
  hk_sample_t sample;
  if (where.kind != hk_address_live_block || !hk_sample_hook_find_in(where.start, where.bytes, &sample)) return where;
  if (address < sample.address) {
    where.kind = hk_address_before_sample;
    where.bytes = sample.offset;
    return where;
  }
  where.start += sample.offset;
  where.bytes -= sample.offset;
  where.offset = sample.offset;
  where.sample = sample;
  return where;
}

hk_address_class_t hk_address_class_before(const hk_address_class_t *where) {
  hk_address_class_t none = {.kind = hk_address_foreign};
  uintptr_t start = where->start - where->offset;
  if (start == 0 || start >> HK_ADDRESS_BITS != 0) return none;
  hk_address_class_t before = hk_address_class_of(start - 1);
  bool is_block = before.kind == hk_address_live_block || before.kind == hk_address_free_block;
  return is_block && before.start + before.bytes == start ? before : none;
}

#if HK_SAFETY
#define SECRET (&hk_secret)
#else
#define SECRET NULL
#endif

/* Kept without a use in the program: a debugger reads it. */
__attribute__((used)) const hk_layout_t hakmem_layout = {
    .magic = HK_LAYOUT_MAGIC,
    .region_map = &hk_region_map,
    .secret = SECRET,
    .number =
        {
            {"address_bits", HK_ADDRESS_BITS},
            {"region_shift", HK_REGION_SHIFT},
            {"slab_shift", HK_SLAB_SHIFT},
            {"superslab_slabs", HK_SUPERSLAB_SLABS},
            {"block_alignment", HK_BLOCK_ALIGNMENT},
            {"tiny_max_bytes", HK_TINY_MAX_BYTES},
            {"mid_max_bytes", HK_MID_MAX_BYTES},
            {"mid_step_shift", HK_MID_STEP_SHIFT},
            {"map.distance", offsetof(hk_region_map_t, distance)},
            {"slab.size", sizeof(hk_slab_t)},
            {"slab.owner", offsetof(hk_slab_t, owner)},
            {"slab.head", offsetof(hk_slab_t, head)},
            {"slab.state", offsetof(hk_slab_t, state)},
            {"slab.slab_count", offsetof(hk_slab_t, slab_count)},
            {"slab.block_bytes", offsetof(hk_slab_t, block_bytes)},
            {"slab.bytes", offsetof(hk_slab_t, bytes)},
            {"slab.superslab", offsetof(hk_slab_t, superslab)},
            {"slab.carved", offsetof(hk_slab_t, carved)},
            {"heap.life", offsetof(hk_heap_t, life)},
            /* Where the live bits lie behind the start of a region's descriptors; 0: there are none. */
            {"live_words", HK_HARDENED ? sizeof(hk_region_t) : 0},
        },
};
