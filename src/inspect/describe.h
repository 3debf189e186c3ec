/* inspect/describe.h - L8. Describes an address in one line: its block, the block's owner and state, or the block next
 * to it. */
#ifndef HK_INSPECT_DESCRIBE_H
#define HK_INSPECT_DESCRIBE_H

#include <stdint.h>

#include "base/format.h"

/* Room for the longest line that hk_describe writes, with the zero byte. */
#define HK_DESCRIBE_BYTES 1536

/* Appends "0x... is ..." for any value, without a newline. Takes no lock and writes nothing else, so a signal handler
 * that interrupted the allocator may call it. */
void hk_describe(hk_format_t *out, uintptr_t address);

#endif /* HK_INSPECT_DESCRIBE_H */
