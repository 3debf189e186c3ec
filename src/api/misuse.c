/* api/misuse.c - L5. See misuse.h. */
#include "api/misuse.h"

#include "api/address_class.h"
#include "api/guarded.h"
#include "api/instruments.h"
#include "api/verify.h"
#include "base/format.h"
#include "os/os.h"
#include "policy/option.h"
#include "policy/stat.h"

typedef struct {
  hk_format_t format; /* in `text` */
  const char *kind;
  char text[512];
} message_t;

static void begin(message_t *message, const char *kind) {
  hk_format_init(&message->format, message->text, sizeof message->text);
  message->kind = kind;
  hk_format_print(&message->format, "hakmem: %s: ", kind);
}

/* Ends the message and writes it by one call. */
static void write_out(message_t *message) {
  hk_format_print(&message->format, " (see: hakmem help %s)\n", message->kind);
  hk_os_write_stderr(message->text, message->format.length);
}

/* Counts a misuse and ends its message. Follows the option `on_misuse`: it may silence the message, or abort. */
static void finish(message_t *message) {
  hk_stat_add(hk_stat_misuse, 1);
  if (hk_option.on_misuse != hk_misuse_ignore) write_out(message);
  if (hk_option.on_misuse == hk_misuse_abort) hk_os_abort();
}

static const char *kind_of(hk_act_t act, hk_verdict_t verdict) {
  bool is_free = verdict == hk_verdict_free_block || verdict == hk_verdict_free;
  if (act == hk_act_free) return is_free ? "double-free" : "invalid-free";
  return is_free ? "use-after-free" : "invalid-pointer";
}

/* Adds whether the block that the address lies in is in use, or which block it lies behind. */
static void add_address(hk_format_t *message, uintptr_t address) {
  hk_address_class_t where = hk_address_class_of(address);
  if (where.kind == hk_address_live_block) hk_format_text(message, ", which is in use");
  if (where.kind == hk_address_free_block) hk_format_text(message, ", which is free");
  if (where.kind == hk_address_foreign || where.kind == hk_address_slab_end)
    hk_describe_neighbour(message, address, &where);
}

/* Describes an address inside a block. A sampled block begins behind the start of the block that holds it, which the
 * program does not know. */
static void describe_inside(hk_format_t *message, uintptr_t address, const hk_finding_t *finding) {
  hk_address_class_t where = hk_address_class_of(address);
  if (where.kind == hk_address_before_sample) {
    hk_format_print(message, "%p is in the %n before the sampled block at %p", address, (uint64_t)where.bytes,
                    where.start + where.bytes);
    return;
  }
  bool is_sampled = where.offset != 0 && where.start == finding->start + where.offset; /* else freed meanwhile */
  size_t offset = is_sampled ? where.offset : 0;
  uintptr_t start = finding->start + offset;
  hk_format_print(message, "%p is %n into a block of %n at %p", address, (uint64_t)(address - start),
                  (uint64_t)(finding->bytes - offset), start);
  add_address(message, address);
}

static void describe(hk_format_t *message, uintptr_t address, const hk_finding_t *finding) {
  uint64_t bytes = finding->bytes;
  switch (finding->verdict) {
    case hk_verdict_free_block:
      hk_format_print(message, "%p is a block of %n that is free already", address, bytes);
      break;
    case hk_verdict_free:
      hk_format_print(message, "%p lies in memory that is free already", address);
      break;
    case hk_verdict_interior:
      describe_inside(message, address, finding);
      break;
    case hk_verdict_slab_end:
      hk_format_print(message, "%p is behind the last block of a slab", address);
      add_address(message, address);
      break;
    case hk_verdict_live: /* since the first look another thread has made it a live block */
      hk_format_print(message, "%p was no block in use a moment ago", address);
      break;
    case hk_verdict_foreign:
      hk_format_print(message, "%p is not in hakmem's memory", address);
      add_address(message, address);
      break;
  }
}

static hk_guard_noticed_t noticed_by(hk_act_t act) {
  return act == hk_act_free ? hk_guard_by_free : act == hk_act_realloc ? hk_guard_by_realloc : hk_guard_by_usable_size;
}

void hk_misuse_address(hk_act_t act, const void *address) {
  if (hk_guard_slot_has_pool() && hk_guarded_misuse(noticed_by(act), (uintptr_t)address)) return;
  hk_finding_t finding = hk_verify_thoroughly(address);
  message_t message;
  begin(&message, kind_of(act, finding.verdict));
  describe(&message.format, (uintptr_t)address, &finding);
  finish(&message);
}

void hk_misuse_overflow(const void *block, size_t bytes) {
  message_t message;
  begin(&message, "overflow");
  hk_format_print(&message.format, "block %p of %n was written to behind its end", (uintptr_t)block, (uint64_t)bytes);
  finish(&message);
}

void hk_misuse_wrong_size(const void *block, size_t bytes, const size_t *alignment, size_t size) {
  message_t message;
  begin(&message, "wrong-size");
  hk_format_print(&message.format, "%p is a block of %n, and was freed as one of %n", (uintptr_t)block, (uint64_t)bytes,
                  (uint64_t)size);
  if (alignment != NULL) hk_format_print(&message.format, " with an alignment of %u", (uint64_t)*alignment);
  finish(&message);
}

void hk_misuse_damage(const void *block) {
  hk_finding_t finding = hk_verify(block);
  message_t message;
  begin(&message, "damaged-block");
  if (finding.bytes != 0) {
    hk_format_print(&message.format, "free block %p of %n was written to after it was freed", (uintptr_t)block,
                    (uint64_t)finding.bytes);
  } else {
    hk_format_print(&message.format, "a list of free blocks leads to %p, which is no block", (uintptr_t)block);
  }
  finish(&message);
}

void hk_misuse_heap(const void *heap, const char *name) {
  message_t message;
  begin(&message, "destroyed-heap");
  hk_format_print(&message.format, "the heap at %p was destroyed before; its last name is \"", (uintptr_t)heap);
  hk_format_name(&message.format, name);
  hk_format_text(&message.format, "\"");
  finish(&message);
}

void hk_misuse_leaked_heap(const char *name, uint64_t blocks, uint64_t bytes) {
  message_t message;
  begin(&message, "leaked-heap");
  hk_format_text(&message.format, "heap \"");
  hk_format_name(&message.format, name);
  hk_format_text(&message.format, "\" is destroyed with ");
  hk_format_count(&message.format, blocks, "block");
  hk_format_text(&message.format, " of ");
  hk_format_count(&message.format, bytes, "byte");
  hk_format_text(&message.format, " in use");
  write_out(&message);
}
