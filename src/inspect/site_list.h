/* inspect/site_list.h - L8. The sites as JSON: all that is counted of them, for the tool. */
#ifndef HK_INSPECT_SITE_LIST_H
#define HK_INSPECT_SITE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* {"schema":1,"rate":..,"sites":[..],"mappings":[..]}. Frames are return addresses, the innermost first. `has_pinned`: what
 * inspect/pinned.h has estimated is told as well. False when the receiver did not take it all. */
bool hk_site_list_write(hk_output_t *to, uint64_t rate_bytes, bool has_pinned);

/* The list of mappings alone, [..]. */
bool hk_site_list_write_mappings(hk_output_t *to);

HK_C_END

#endif /* HK_INSPECT_SITE_LIST_H */
