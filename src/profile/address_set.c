/* profile/address_set.c - L5. See address_set.h. */
#include "profile/address_set.h"

#include "base/bits.h"
#include "os/os.h"

bool hk_address_set_init(hk_address_set_t *set, size_t count) {
  size_t least = hk_os_page_size() / sizeof(uintptr_t);
  /* At most half of the slots are used: what is looked for is never far. */
  set->slot_count = count < least ? 2 * least : hk_next_power_of_two(2 * count);
  set->used = 0;
  set->slots = hk_os_reserve(set->slot_count * sizeof(uintptr_t), hk_os_page_size());
  return set->slots != NULL;
}

void hk_address_set_end(hk_address_set_t *set) { (void)hk_os_unmap(set->slots, set->slot_count * sizeof(uintptr_t)); }

size_t hk_address_set_number(hk_address_set_t *set, uintptr_t address) {
  size_t mask = set->slot_count - 1, at = (address * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;
  while (set->slots[at] != 0 && set->slots[at] != address) at = (at + 1) & mask;
  if (set->slots[at] == 0) {
    if (set->used >= set->slot_count / 2) return 0;
    set->slots[at] = address;
    set->used++;
  }
  return at + 1;
}
