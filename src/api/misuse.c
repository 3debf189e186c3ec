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

#define MESSAGE_BYTES 512

/* Ends the message, writes it by one call, and aborts if the option says so. */
static void finish(hk_format_t *message, const char *kind) {
  hk_format_print(message, " (see: hakmem help %s)\n", kind);
  hk_stat_add(hk_stat_misuse, 1);
  if (hk_option.on_misuse != hk_misuse_ignore) hk_os_write_stderr(message->text, message->length);
  if (hk_option.on_misuse == hk_misuse_abort) hk_os_abort();
}

static const char *kind_of(hk_act_t act, hk_verdict_t verdict) {
  bool is_free = verdict == hk_verdict_free_block || verdict == hk_verdict_free_extent;
  if (act == hk_act_free) return is_free ? "double-free" : "invalid-free";
  return is_free ? "use-after-free" : "invalid-pointer";
}

/* Adds which block the address lies in or behind, as far as the message lacks it. */
static void add_address(hk_format_t *message, uintptr_t address) {
  hk_address_class_t where = hk_address_class_of(address);
  if (where.kind == hk_address_live_block) hk_format_text(message, ", which is in use");
  if (where.kind == hk_address_free_block) hk_format_text(message, ", which is free");
  if (where.kind == hk_address_foreign) hk_describe_neighbour(message, address, &where);
}

static void describe(hk_format_t *message, uintptr_t address, const hk_finding_t *finding) {
  uint64_t bytes = finding->bytes;
  switch (finding->verdict) {
    case hk_verdict_free_block:
      hk_format_print(message, "%p is a block of %u bytes that is free already", address, bytes);
      break;
    case hk_verdict_free_extent:
      hk_format_print(message, "%p lies in memory that is free already", address);
      break;
    case hk_verdict_interior:
      hk_format_print(message, "%p is %u bytes into a block of %u bytes at %p", address,
                      (uint64_t)(address - finding->start), bytes, finding->start);
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
  return act == hk_act_free ? hk_guard_by_free : act == hk_act_realloc ? hk_guard_by_realloc : hk_guard_by_ask_size;
}

void hk_misuse_address(hk_act_t act, const void *address) {
  if (hk_guard_slot_has_pool() && hk_guarded_misuse(noticed_by(act), (uintptr_t)address)) return;
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_finding_t finding = hk_verify_thoroughly(address);
  const char *kind = kind_of(act, finding.verdict);
  hk_format_init(&message, text, sizeof text);
  hk_format_print(&message, "hakmem: %s: ", kind);
  describe(&message, (uintptr_t)address, &finding);
  finish(&message, kind);
}

void hk_misuse_overflow(const void *block, size_t bytes) {
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_format_init(&message, text, sizeof text);
  hk_format_print(&message, "hakmem: overflow: block %p of %u bytes was written to behind its end", (uintptr_t)block,
                  (uint64_t)bytes);
  finish(&message, "overflow");
}

void hk_misuse_told_size(const void *block, size_t bytes, const size_t *alignment, size_t size) {
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_format_init(&message, text, sizeof text);
  hk_format_print(&message, "hakmem: wrong-size: %p is a block of %u bytes, and was freed as one of %u bytes",
                  (uintptr_t)block, (uint64_t)bytes, (uint64_t)size);
  if (alignment != NULL) hk_format_print(&message, " with an alignment of %u", (uint64_t)*alignment);
  finish(&message, "wrong-size");
}

void hk_misuse_damage(const void *block) {
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_finding_t finding = hk_verify(block);
  hk_format_init(&message, text, sizeof text);
  if (finding.bytes != 0) {
    hk_format_print(&message, "hakmem: damaged-block: free block %p of %u bytes was written to after it was freed",
                    (uintptr_t)block, (uint64_t)finding.bytes);
  } else {
    hk_format_print(&message, "hakmem: damaged-block: a list of free blocks leads to %p, which is no block",
                    (uintptr_t)block);
  }
  finish(&message, "damaged-block");
}

void hk_misuse_heap(const void *heap, const char *name) {
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_format_init(&message, text, sizeof text);
  hk_format_print(&message, "hakmem: destroyed-heap: the heap at %p was destroyed before; its last name is \"",
                  (uintptr_t)heap);
  hk_format_name(&message, name);
  hk_format_text(&message, "\"");
  finish(&message, "destroyed-heap");
}

void hk_misuse_leaked_heap(const char *name, uint64_t blocks, uint64_t bytes) {
  char text[MESSAGE_BYTES];
  hk_format_t message;
  hk_format_init(&message, text, sizeof text);
  hk_format_text(&message, "hakmem: leaked-heap: heap \"");
  hk_format_name(&message, name);
  hk_format_print(&message, "\" is destroyed with %u blocks of %u bytes in use (see: hakmem help leaked-heap)\n",
                  blocks, bytes);
  hk_os_write_stderr(message.text, message.length);
}
