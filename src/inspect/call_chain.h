/* inspect/call_chain.h - L8. The calls that led to a crash, and the file that each of them lies in. */
#ifndef HK_INSPECT_CALL_CHAIN_H
#define HK_INSPECT_CALL_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/format.h"
#include "os/crash_signal.h"

/* Stores the program counter and the return addresses behind it, at most `most`, and returns their number. Uses unwind
 * tables when the caller is the crash's signal handler and the tables know the program counter; otherwise follows frame
 * pointers as far as they lead. The kernel copies the memory, so a damaged stack only ends the chain. */
unsigned hk_call_chain_of(const hk_crash_t *crash, uintptr_t *addresses, unsigned most);

/* Room for the end of a path. The beginning of a longer one is dropped: "..." stands for it, so no path seems
 * absolute that is not. */
#define HK_CALL_PLACE_NAME_BYTES 96

typedef struct {
  bool is_known;
  bool is_code;                        /* the mapping is executable */
  char name[HK_CALL_PLACE_NAME_BYTES]; /* "" for a mapping without a file */
  uintptr_t offset;                    /* from the file's beginning; without a file, from the mapping's start */
} hk_call_place_t;

/* Looks each address up in the kernel's list of mappings. */
void hk_call_places_of(const uintptr_t *addresses, unsigned count, hk_call_place_t *places);

/* Appends " NAME+0x12" of a place whose name is not empty. A path may have any bytes: hk_format_name writes it. */
void hk_call_place_print(hk_format_t *out, const hk_call_place_t *place);

#endif /* HK_INSPECT_CALL_CHAIN_H */
