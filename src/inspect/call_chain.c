/* inspect/call_chain.c - L8. See call_chain.h. */
#include "inspect/call_chain.h"

#include <string.h>

#include "base/units.h"
#include "os/peek.h"
#include "unwind/module_map.h"
#include "unwind/unwind.h"

/* Chosen: includes the frames of the signal handler. */
#define FRAMES_MAX 80

/* Chosen: no function's frame is longer. */
#define FRAME_BYTES_MAX HK_MIB

static bool read_word(uintptr_t address, uintptr_t *value) {
  void *word;
  if (address % sizeof word != 0 || address < HK_SLAB_BYTES || !hk_os_peek((const void *)address, &word)) return false;
  *value = (uintptr_t)word;
  return true;
}

/* Finds the caller of an address that is not mapped. A call through a null or damaged function pointer has stored only
 * its return address: on the stack (x86-64) or in the link register (arm64). */
static bool find_caller(const hk_crash_t *crash, uintptr_t *caller) {
#if defined(__x86_64__)
  return read_word(crash->stack_pointer, caller);
#else
  *caller = crash->registers[30];
  return true;
#endif
}

/* Unwinds by tables from the signal handler that calls it. Stores the return addresses that follow the interrupted
 * frame, which hk_unwind reports as a call that returns one byte behind its address. Returns 0 where the tables do not
 * lead to that frame. */
static unsigned unwind(const hk_crash_t *crash, uintptr_t *addresses, unsigned most) {
  uintptr_t frames[FRAMES_MAX];
  unsigned count = hk_unwind(frames, FRAMES_MAX, 0), found = 0, kept = 0;
  while (found < count && frames[found] != crash->program_counter + 1) found++;
  for (unsigned i = found + 1; i < count && kept < most; i++) addresses[kept++] = frames[i];
  return kept;
}

unsigned hk_call_chain_of(const hk_crash_t *crash, uintptr_t *addresses, unsigned most) {
  unsigned count = 0;
  addresses[count++] = crash->program_counter;
  unsigned unwound = unwind(crash, addresses + count, most - count);
  if (unwound > 0) return count + unwound;
  if (crash->is_fault && crash->address == crash->program_counter && find_caller(crash, &addresses[count])) count++;
  uintptr_t frame = crash->frame_pointer, next, address;
  if (frame < crash->stack_pointer) return count;
  while (count < most && read_word(frame, &next) && read_word(frame + sizeof next, &address)) {
    if (address < HK_SLAB_BYTES) break;
    addresses[count++] = address;
    if (next <= frame || next - frame > FRAME_BYTES_MAX) break;
    frame = next;
  }
  return count;
}

/* ---- The file that each address lies in. */

/* Returns the address at which the file's beginning is mapped, or would be. */
static uintptr_t base_of(const hk_module_mapping_t *mapping) {
  if (mapping->header != 0) return mapping->header;
  return *mapping->path == '\0' ? mapping->start : mapping->start - mapping->offset;
}

static void set_place(hk_call_place_t *place, const hk_module_mapping_t *mapping, uintptr_t address) {
  static const char left_out[] = {'.', '.', '.'};
  size_t length = strlen(mapping->path);
  size_t dropped = length < HK_CALL_PLACE_NAME_BYTES ? 0 : length - (HK_CALL_PLACE_NAME_BYTES - 1);
  memcpy(place->name, mapping->path + dropped, length - dropped + 1);
  if (dropped > 0) memcpy(place->name, left_out, sizeof left_out);
  place->offset = address - base_of(mapping);
  place->is_known = true;
  place->is_code = mapping->is_code;
}

void hk_call_places_of(const uintptr_t *addresses, unsigned count, hk_call_place_t *places) {
  for (unsigned i = 0; i < count; i++) places[i] = (hk_call_place_t){.is_known = false};
  hk_module_map_t map;
  if (!hk_module_map_open(&map)) return;
  while (hk_module_map_next(&map)) {
    const hk_module_mapping_t *mapping = &map.mapping;
    for (unsigned i = 0; i < count; i++) {
      if (addresses[i] - mapping->start < mapping->end - mapping->start) set_place(&places[i], mapping, addresses[i]);
    }
  }
  hk_module_map_close(&map);
}

void hk_call_place_print(hk_format_t *out, const hk_call_place_t *place) {
  hk_format_text(out, " ");
  hk_format_name(out, place->name);
  hk_format_print(out, "+%p", place->offset);
}
