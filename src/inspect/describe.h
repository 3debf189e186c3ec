/* inspect/describe.h - L8. A pointer explained, in one line: which block, whose, in use or free, or next to which one. */
#ifndef HK_INSPECT_DESCRIBE_H
#define HK_INSPECT_DESCRIBE_H

#include <stdint.h>

#include "base/format.h"

/* Room for every line that hk_describe writes, with the zero byte. */
#define HK_DESCRIBE_BYTES 1536

/* Appends "0x... is ..." for any value, without an end of line. Takes no lock and writes nothing else: also from a signal
 * handler that interrupted the allocator. */
void hk_describe(hk_format_t *out, uintptr_t address);

#endif /* HK_INSPECT_DESCRIBE_H */
