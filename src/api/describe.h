/* api/describe.h - L6. A pointer explained, in one line: which block, whose, in use or free, or next to which one. */
#ifndef HK_API_DESCRIBE_H
#define HK_API_DESCRIBE_H

#include <stdint.h>

#include "api/address_class.h"
#include "base/format.h"

/* Room for every line that hk_describe writes, with the zero byte. */
#define HK_DESCRIBE_BYTES 1536

/* Appends "0x... is ..." for any value, without an end of line. Takes no lock and writes nothing else: also from a signal
 * handler that interrupted the allocator. */
void hk_describe(hk_format_t *out, uintptr_t address);

/* Appends ", 3 bytes past the end of a live block of ..." where the address lies at most a little behind a block that ends
 * where its own block begins; nothing otherwise. */
void hk_describe_neighbour(hk_format_t *out, uintptr_t address, const hk_address_class_t *where);

#endif /* HK_API_DESCRIBE_H */
