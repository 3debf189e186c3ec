/* api/spot.c - L6. See spot.h. Descriptors are always there, whatever becomes of the memory that they describe. What
 * other threads may write meanwhile is read once, and believed only where it cannot lead astray: a slab's head is near
 * it, a block has a size. */
#include "api/spot.h"

#include "heap/search.h"
#include "heap/span.h"
#include "os/peek.h"
#include "policy/size_class.h"
#include "space/region_map.h"

#define LOAD_RACY(object) __atomic_load_n((object), __ATOMIC_RELAXED)

static uintptr_t slab_start_of(uintptr_t address) { return address & ~(HK_SLAB_BYTES - 1); }

static hk_spot_t nowhere(hk_spot_kind_t kind, uintptr_t address) {
  return (hk_spot_t){.kind = kind, .start = slab_start_of(address)};
}

/* Where the span or the run begins that the slab at `start` belongs to. False when its descriptor says nonsense. */
static bool find_head(hk_slab_t *slab, uintptr_t start, hk_spot_t *spot) {
  hk_slab_t *head = LOAD_RACY(&slab->head);
  uintptr_t distance = (uintptr_t)slab - (uintptr_t)head;
  if (head == NULL || distance >= HK_SUPERSLAB_SLABS * sizeof *head || distance % sizeof *head != 0) return false;
  spot->head = head;
  spot->head_start = start - distance / sizeof *head * HK_SLAB_BYTES;
  return true;
}

/* The program may have forbidden itself to read its own block: the system says so, and what it is stays unknown. */
static bool may_be_free(const hk_block_t *block) {
#if HK_SAFETY
  void *next, *seal;
  if (!hk_os_peek(&block->next, &next) || !hk_os_peek(&block->seal, &seal)) return false;
  hk_block_t copy = {.next = next, .seal = (uintptr_t)seal};
  return hk_block_looks_free(&copy);
#else
  void *next;
  return hk_os_peek(&block->next, &next);
#endif
}

static hk_spot_kind_t kind_of_block(hk_slab_t *span, const hk_block_t *block) {
  if (!hk_span_has_block(span, block)) return hk_spot_uncut;
  return may_be_free(block) && hk_search_free(span, block) ? hk_spot_free_block : hk_spot_live_block;
}

static hk_spot_t spot_in_span(hk_slab_t *slab, uintptr_t address) {
  hk_spot_t spot = nowhere(hk_spot_free, address);
  size_t bytes = LOAD_RACY(&slab->block_bytes);
  uintptr_t slab_start = spot.start;
  if (!find_head(slab, slab_start, &spot)) return spot;
  if (bytes < HK_BLOCK_ALIGNMENT || bytes > HK_MID_MAX_BYTES) return spot;
  uintptr_t used = HK_SLAB_BYTES / bytes * bytes;
  spot.bytes = bytes;
  if (address - slab_start >= used) {
    spot.kind = hk_spot_slab_end;
    spot.start = slab_start + used;
  } else {
    spot.start = address - (address - slab_start) % bytes;
    spot.kind = kind_of_block(spot.head, (const hk_block_t *)spot.start);
  }
  return spot;
}

static hk_spot_t spot_in_run(hk_slab_t *slab, uintptr_t address) {
  hk_spot_t spot = nowhere(hk_spot_free, address);
  if (hk_slab_state(slab) == hk_slab_run) {
    spot.head = slab;
    spot.head_start = spot.start;
  } else if (!find_head(slab, spot.start, &spot)) {
    return spot;
  }
  spot.kind = hk_spot_live_block;
  spot.start = spot.head_start;
  spot.bytes = hk_load_relaxed(&spot.head->bytes);
  return spot;
}

/* Chosen: from an address in the middle of a big block its start is looked for so far. */
#define LOOK_BACK_SLABS (2 * HK_GIB / HK_SLAB_BYTES)

/* Of a big block only the first slab has a descriptor, of a free range the first and the last: the next one below says
 * what the address lies in, if that reaches up to it. */
static hk_spot_t spot_in_big(uintptr_t address) {
  hk_spot_t foreign = nowhere(hk_spot_foreign, address);
  uintptr_t unit = foreign.start;
  for (unsigned steps = 0; steps < LOOK_BACK_SLABS && unit >= HK_SLAB_BYTES; steps++, unit -= HK_SLAB_BYTES) {
    hk_slab_t *slab = hk_slab_of((void *)unit);
    hk_slab_state_t state = hk_slab_state(slab);
    if (state == hk_slab_none) continue;
    size_t bytes = hk_load_relaxed(&slab->bytes);
    if (address - unit >= bytes) return foreign;
    if (state == hk_slab_big) return (hk_spot_t){.kind = hk_spot_live_block, .start = unit, .bytes = bytes};
    return state == hk_slab_free && LOAD_RACY(&slab->superslab) == NULL ? nowhere(hk_spot_free, address) : foreign;
  }
  return foreign;
}

static hk_spot_t spot_of_whole(uintptr_t address) {
  if (address >> HK_ADDRESS_BITS != 0) return (hk_spot_t){.kind = hk_spot_foreign, .start = address};
  hk_slab_t *slab = hk_slab_of((const void *)address);
  switch (hk_slab_state(slab)) {
    case hk_slab_small:
      return spot_in_span(slab, address);
    case hk_slab_run:
    case hk_slab_run_tail:
      return spot_in_run(slab, address);
    case hk_slab_free:
      return nowhere(hk_spot_free, address);
    default:
      return spot_in_big(address);
  }
}

/* A sampled block's distance from the start of the one that it lies in is an alignment. */
static bool find_sample(const hk_spot_t *spot, hk_sample_t *sample) {
  for (size_t offset = HK_BLOCK_ALIGNMENT; offset < spot->bytes; offset *= 2) {
    bool is_live = hk_sample_find(spot->start + offset, sample) == hk_sample_live;
    if (is_live && sample->offset == offset) return true;
  }
  return false;
}

hk_spot_t hk_spot_of(uintptr_t address) {
  hk_spot_t spot = spot_of_whole(address);
  hk_sample_t sample;
  if (spot.kind != hk_spot_live_block || !find_sample(&spot, &sample)) return spot;
  if (address < sample.address) {
    spot.kind = hk_spot_before_sample;
    spot.bytes = sample.offset;
    return spot;
  }
  spot.start += sample.offset;
  spot.bytes -= sample.offset;
  spot.offset = sample.offset;
  spot.sample = sample;
  return spot;
}

hk_spot_t hk_spot_before(const hk_spot_t *spot) {
  hk_spot_t none = {.kind = hk_spot_foreign};
  uintptr_t start = spot->start - spot->offset;
  if (start == 0 || start >> HK_ADDRESS_BITS != 0) return none;
  hk_spot_t before = hk_spot_of(start - 1);
  bool is_block = before.kind == hk_spot_live_block || before.kind == hk_spot_free_block;
  return is_block && before.start + before.bytes == start ? before : none;
}

#if HK_SAFETY
#define SECRET (&hk_secret)
#else
#define SECRET NULL
#endif

/* A debugger may look for it in a program that never does. */
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
        },
};
