/* inspect/call_chain.h - L8. The calls that led to a crash, and which file each is in. */
#ifndef HK_INSPECT_CALL_CHAIN_H
#define HK_INSPECT_CALL_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "os/crash_signal.h"

/* The program counter, then the return addresses: by unwind tables when it is called from the crash's signal handler, else, and
 * where these know nothing of the program counter, as far as frame pointers lead. At most `most`; how many. Memory is read by the system, so that a damaged stack costs nothing but the rest. */
unsigned hk_call_chain_of(const hk_crash_t *crash, uintptr_t *addresses, unsigned most);

/* The end of a long path. */
#define HK_CALL_PLACE_NAME_BYTES 96

typedef struct {
  bool is_known;
  bool is_code;                        /* the program may run it */
  char name[HK_CALL_PLACE_NAME_BYTES]; /* "" where memory belongs to no file */
  uintptr_t offset;                    /* in the file; of what belongs to none, in the mapping */
} hk_call_place_t;

/* What the kernel's list of mappings says of each address. */
void hk_call_places_of(const uintptr_t *addresses, unsigned count, hk_call_place_t *modules);

#endif /* HK_INSPECT_CALL_CHAIN_H */
