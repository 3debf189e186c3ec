/* inspect/describe.c - L8. See describe.h. */
#include "inspect/describe.h"

#include <string.h>

#include "api/instruments.h"
#include "base/arithmetic.h"
#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "heap/named.h"
#include "heap/thread.h"
#include "inspect/call_chain.h"
#include "inspect/sample.h"
#include "os/os.h"
#include "policy/size_class.h"
#include "space/guard_slot.h"
#include "space/region_map.h"
#include "unwind/site.h"

/* Chosen: a write past a block's end seldom reaches farther into the next block. Where no block follows, the limit is
 * the slab's length. */
#define NEAR_BYTES 64

/* Innermost calls of a sampled block's stack that are named. */
#define CALLS_MAX 8

/* A program has no memory below this address: an address there is a null pointer with an offset. */
#define NULL_PAGES_BYTES HK_SLAB_BYTES

static bool is_in_block(const hk_address_class_t *where) {
  return where->kind == hk_address_live_block || where->kind == hk_address_free_block ||
         where->kind == hk_address_uncarved;
}

static const char *state_text(hk_address_kind_t kind) { return kind == hk_address_live_block ? "live" : "free"; }

static void describe_block(hk_format_t *out, uintptr_t address, const hk_address_class_t *where) {
  if (address == where->start) {
    hk_format_text(out, "the start of ");
  } else {
    hk_format_print(out, "%n into ", (uint64_t)(address - where->start));
  }
  if (where->kind == hk_address_uncarved) {
    hk_format_print(out, "a block of %n", (uint64_t)where->bytes);
  } else {
    hk_format_print(out, "a %s block of %n", state_text(where->kind), (uint64_t)where->bytes);
  }
  if (address != where->start) hk_format_print(out, " at %p", where->start);
  if (where->kind == hk_address_uncarved) hk_format_text(out, " that was never handed out");
}

static void describe_outside(hk_format_t *out, uintptr_t address) {
  if (address == 0) {
    hk_format_text(out, "NULL");
  } else if (address < NULL_PAGES_BYTES) {
    hk_format_print(out, "NULL plus %n, which is never mapped", (uint64_t)address);
  } else if (address >> HK_ADDRESS_BITS != 0) {
    hk_format_text(out, "not an address that a program can have");
  } else {
    hk_format_text(out, "not in hakmem's memory");
  }
}

void hk_describe_neighbour(hk_format_t *out, uintptr_t address, const hk_address_class_t *where) {
  bool is_live_start = where->kind == hk_address_live_block && address == where->start;
  if (is_live_start || address < NULL_PAGES_BYTES) return;
  if (is_in_block(where) && address - where->start >= NEAR_BYTES) return;
  hk_address_class_t before = hk_address_class_before(where);
  if (before.kind == hk_address_foreign) return;
  hk_format_print(out, ", %n past the end of a %s block of %n at %p",
                  (uint64_t)(address - (before.start + before.bytes)), state_text(before.kind), (uint64_t)before.bytes,
                  before.start);
}

static const char *owner_text(hk_heap_t *heap) {
  if (heap == hk_thread_own()) return "of this thread";
  switch (hk_heap_life(heap)) {
    case hk_heap_attached:
      return "of another live thread";
    case hk_heap_idle:
      return "whose thread has ended";
    default:
      return "whose thread vanished in a fork";
  }
}

static void describe_slabs(hk_format_t *out, const hk_address_class_t *where) {
  hk_format_count(out, where->head->slab_count, "slab");
  hk_format_print(out, " at %p", where->head_start);
}

static void describe_named(hk_format_t *out, hk_named_t *named) {
  if (named == NULL) return;
  hk_format_text(out, hk_named_kind(named) == hk_named_tag ? ", tag \"" : ", named heap \"");
  hk_format_name(out, named->name);
  hk_format_text(out, "\"");
}

/* The block's owner may free it meanwhile: records are never unmapped. */
static void describe_named_larger(hk_format_t *out, const hk_address_class_t *where) {
  const hk_slab_t *slab = hk_slab_of((const void *)(where->start - where->offset));
  if (where->kind == hk_address_live_block && hk_named_is_larger(slab)) describe_named(out, slab->named);
}

/* Names the span, run or large block that the address lies in, for readers of these sources. */
static void describe_memory(hk_format_t *out, const hk_address_class_t *where) {
  if (where->head == NULL) {
    if (where->kind != hk_address_live_block || where->bytes == 0) return; /* a block of no bytes is no large one */
    hk_format_text(out, " (large");
    describe_named_larger(out, where);
    hk_format_text(out, ")");
    return;
  }
  size_t whole = where->bytes + where->offset;
  if (whole > HK_MID_MAX_BYTES) {
    hk_format_text(out, " (run of ");
    describe_slabs(out, where);
    describe_named_larger(out, where);
    hk_format_text(out, ")");
    return;
  }
  unsigned class_index = hk_class_of(whole);
  hk_format_print(out, " (%s class %u, span of ", hk_class_is_mid(class_index) ? "mid" : "tiny", (uint64_t)class_index);
  describe_slabs(out, where);
  hk_heap_t *owner = hk_slab_owner(where->head);
  hk_named_t *named = owner != NULL ? hk_heap_named(owner) : NULL;
  if (named != NULL) {
    describe_named(out, named);
  } else if (owner != NULL) {
    hk_format_print(out, ", heap %p %s", (uintptr_t)owner, owner_text(owner));
  }
  hk_format_text(out, ")");
}

static const char *last_part(const char *path) {
  const char *part = strrchr(path, '/');
  return part != NULL ? part + 1 : path;
}

/* Appends a path's last part as hk_format_name writes it. A text that is longer than a path is cut: HK_DESCRIBE_BYTES
 * has room for CALLS_MAX paths. */
static void describe_file(hk_format_t *out, const char *path) {
  char name[HK_CALL_PLACE_NAME_BYTES];
  hk_format_t format;
  hk_format_init(&format, name, sizeof name);
  hk_format_name(&format, last_part(path));
  hk_format_text(out, name);
}

/* Describes the allocation of a sampled block: its age and its call stack. Only samples have these. The stacks of other
 * callers need not have room for its arrays. */
static HK_NOINLINE void describe_sample(hk_format_t *out, const hk_address_class_t *where) {
  if (where->offset == 0) return;
  const hk_sample_t *sample = &where->sample;
  hk_format_print(out, ", sampled: %n requested %u ms ago", sample->weight.requested_bytes,
                  hk_subtract_to_zero(hk_os_coarse_ms(), sample->born_ms));
  if (sample->site == NULL || sample->site->frame_count == 0) return;
  hk_call_place_t places[CALLS_MAX];
  uintptr_t calls[HK_SITE_FRAMES_MAX];
  unsigned count = (unsigned)hk_smaller(hk_site_frames(sample->site, calls), CALLS_MAX);
  for (unsigned i = 0; i < count; i++) calls[i]--;
  hk_call_places_of(calls, count, places);
  hk_format_text(out, " by");
  for (unsigned i = 0; i < count; i++) {
    if (places[i].is_known && places[i].name[0] != '\0') {
      hk_format_text(out, " ");
      describe_file(out, places[i].name);
      hk_format_print(out, "+%p", places[i].offset);
    } else {
      hk_format_print(out, " %p", calls[i]);
    }
  }
}

void hk_describe_distance(hk_format_t *out, uintptr_t address, uintptr_t start, size_t bytes) {
  uintptr_t end = start + bytes;
  if (address < start) {
    hk_format_print(out, "%n before the start of", (uint64_t)(start - address));
  } else if (address >= end) {
    hk_format_print(out, "%n past the end of", (uint64_t)(address - end));
  } else {
    hk_format_print(out, "%n into", (uint64_t)(address - start));
  }
}

const char *hk_describe_access(hk_access_t access) {
  static const char *const texts[] = {[hk_access_unknown] = "an access to",
                                      [hk_access_read] = "a read of",
                                      [hk_access_write] = "a write to",
                                      [hk_access_execute] = "a jump to"};
  return texts[access];
}

/* Describes an address in a guard slot, or in a guard page. */
static void describe_guarded(hk_format_t *out, uintptr_t address, const hk_guard_view_t *block) {
  bool is_freed = block->state == hk_guard_freed;
  if (address == block->start) {
    hk_format_text(out, "the start of");
  } else {
    hk_describe_distance(out, address, block->start, block->bytes);
  }
  hk_format_print(out, " a %s block of %n", is_freed ? "free" : "live", (uint64_t)block->bytes);
  if (address != block->start) hk_format_print(out, " at %p", block->start);
  const hk_guard_deed_t *last = is_freed ? &block->freed : &block->allocated;
  hk_format_print(out, " (guarded, %s by thread %u %u ms ago)", is_freed ? "freed" : "allocated", last->thread,
                  hk_subtract_to_zero(hk_os_coarse_ms(), last->ms));
}

void hk_describe(hk_format_t *out, uintptr_t address) {
  hk_address_class_t where = hk_address_class_of(address);
  hk_guard_view_t guarded;
  hk_format_print(out, "%p is ", address);
  if (where.kind == hk_address_foreign && hk_guard_slot_find(address, &guarded)) {
    describe_guarded(out, address, &guarded);
    return;
  }
  if (is_in_block(&where)) {
    describe_block(out, address, &where);
  } else if (where.kind == hk_address_free) {
    hk_format_text(out, "in free memory");
  } else if (where.kind == hk_address_before_sample) {
    hk_format_print(out, "in the %n before the sampled block at %p", (uint64_t)where.bytes, where.start + where.bytes);
  } else if (where.kind == hk_address_slab_end) {
    hk_format_text(out, "behind the last block of a slab");
  } else {
    describe_outside(out, address);
  }
  hk_describe_neighbour(out, address, &where);
  describe_memory(out, &where);
  describe_sample(out, &where);
}

size_t hakmem_describe(const void *address, char *buffer, size_t bytes) {
  char nothing[1];
  hk_format_t text;
  hk_format_init(&text, bytes > 0 ? buffer : nothing, bytes > 0 ? bytes : sizeof nothing);
  hk_describe(&text, (uintptr_t)address);
  return text.length + text.left_out;
}

/* ---- Leaks of a named heap. */

/* Chosen: the sum that follows tells how many there are. */
#define LEAKS_TOLD 5

typedef struct {
  const hk_named_t *named;
  unsigned count;
} named_leaks_t;

static void tell_if_named(const hk_sample_t *sample, void *context) {
  named_leaks_t *leaks = context;
  const hk_slab_t *slab = hk_slab_of((const void *)(sample->address - sample->offset));
  if (leaks->count == LEAKS_TOLD || hk_named_of_slab(slab) != leaks->named) return;
  char text[HK_DESCRIBE_BYTES + 64];
  hk_format_t line;
  hk_format_init(&line, text, sizeof text);
  hk_format_text(&line, "hakmem: leaked-heap: ");
  hk_describe(&line, sample->address);
  hk_format_text(&line, "\n");
  hk_os_write_stderr(line.text, line.length);
  leaks->count++;
}

void hk_sample_hook_print_named(const hk_named_t *named) {
  named_leaks_t leaks = {.named = named};
  hk_sample_visit(tell_if_named, &leaks);
}
