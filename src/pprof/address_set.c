/* pprof/address_set.c - L7. See address_set.h. */
#include "pprof/address_set.h"

#include "base/bits.h"
#include "base/hash.h"
#include "os/os.h"

/* At most half of the places are used, so that a search is short. */
static size_t most_addresses(const hk_address_set_t *set) { return set->place_count / 2; }

/* Returns the bytes of both tables, which lie in one range. */
static size_t bytes_of(const hk_address_set_t *set) {
  return most_addresses(set) * sizeof *set->addresses + set->place_count * sizeof *set->places;
}

bool hk_address_set_init(hk_address_set_t *set, size_t count) {
  size_t least = hk_os_page_size() / (2 * sizeof(uintptr_t));
  set->place_count = 2 * hk_next_power_of_two(count < least ? least : count);
  set->used = 0;
  set->addresses = hk_os_reserve_small(bytes_of(set), hk_os_page_size());
  if (set->addresses == NULL) return false;
  set->places = (uint32_t *)(set->addresses + most_addresses(set));
  return true;
}

void hk_address_set_end(hk_address_set_t *set) { (void)hk_os_unmap(set->addresses, bytes_of(set)); }

size_t hk_address_set_number(hk_address_set_t *set, uintptr_t address) {
  size_t mask = set->place_count - 1, at = hk_hash_place(address, set->place_count);
  while (set->places[at] != 0 && set->addresses[set->places[at] - 1] != address) at = (at + 1) & mask;
  if (set->places[at] == 0) {
    if (set->used >= most_addresses(set)) return 0;
    set->addresses[set->used++] = address;
    set->places[at] = (uint32_t)set->used;
  }
  return set->places[at];
}
