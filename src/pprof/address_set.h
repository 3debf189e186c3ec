/* pprof/address_set.h - L7. A set of addresses, each with its own number: a profile's locations. For one thread. */
#ifndef HK_PPROF_ADDRESS_SET_H
#define HK_PPROF_ADDRESS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* It lies in mapped memory of its own. */
typedef struct {
  uintptr_t *addresses; /* by their numbers, the first one at 0 */
  uint32_t *places;     /* a hash table of numbers; 0: empty */
  size_t place_count;
  size_t used;
} hk_address_set_t;

/* Makes room for `count` addresses. Returns false when the system has no memory. */
bool hk_address_set_init(hk_address_set_t *set, size_t count);
void hk_address_set_end(hk_address_set_t *set);

/* Returns the number of an address, and adds the address if needed. Numbers count from 1 without a gap; 0: the set is
 * full. */
size_t hk_address_set_number(hk_address_set_t *set, uintptr_t address);

HK_C_END

#endif /* HK_PPROF_ADDRESS_SET_H */
