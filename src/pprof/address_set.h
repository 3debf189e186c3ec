/* pprof/address_set.h - L7. Addresses, each with a number of its own: what a profile's locations are. One thread's. */
#ifndef HK_PPROF_ADDRESS_SET_H
#define HK_PPROF_ADDRESS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* In mapped memory of its own. */
typedef struct {
  uintptr_t *addresses; /* by their numbers, the first one at 0 */
  uint32_t *slots;      /* a hash table of numbers; 0: empty */
  size_t slot_count;
  size_t used;
} hk_address_set_t;

/* Room for `count` addresses. False where the system has no memory. */
bool hk_address_set_init(hk_address_set_t *set, size_t count);
void hk_address_set_end(hk_address_set_t *set);

/* The number of an address: from 1 on, without a gap. It is added if it is not there. 0: the set is full. */
size_t hk_address_set_number(hk_address_set_t *set, uintptr_t address);

HK_C_END

#endif /* HK_PPROF_ADDRESS_SET_H */
