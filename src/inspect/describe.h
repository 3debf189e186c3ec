/* inspect/describe.h - L8. Describes an address in one line: its block, the block's owner and state, or the block next
 * to it. */
#ifndef HK_INSPECT_DESCRIBE_H
#define HK_INSPECT_DESCRIBE_H

#include <stddef.h>
#include <stdint.h>

#include "base/format.h"
#include "os/crash_context.h"

/* Room for the longest line that hk_describe writes, with the zero byte. */
#define HK_DESCRIBE_BYTES 1536

/* Appends "0x... is ..." for any value, without a newline. Takes no lock and writes nothing else, so a signal handler
 * that interrupted the allocator may call it. */
void hk_describe(hk_format_t *out, uintptr_t address);

/* Appends where an address lies to a block at `start`: "N bytes before the start of", "past the end of" or "into". */
void hk_describe_distance(hk_format_t *out, uintptr_t address, uintptr_t start, size_t bytes);

/* Returns the words for an access that stand before its address: "a read of", "a write to". */
const char *hk_describe_access(hk_access_t access);

#endif /* HK_INSPECT_DESCRIBE_H */
