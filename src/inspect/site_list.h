/* inspect/site_list.h - L8. The sites with their sums as JSON, for the command line tool. */
#ifndef HK_INSPECT_SITE_LIST_H
#define HK_INSPECT_SITE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pprof/output.h"

HK_C_BEGIN

/* Writes {"schema":1,"rate":..,"sites":[..],"mappings":[..]}. Frames are return addresses, innermost first. With
 * `has_pinned`, the estimates of inspect/pinned.h are written too. Returns false when the receiver did not take all of
 * it. */
bool hk_site_list_write(hk_output_t *to, uint64_t rate_bytes, bool has_pinned);

/* Writes the list of mappings alone, [..]. */
bool hk_site_list_write_mappings(hk_output_t *to);

HK_C_END

#endif /* HK_INSPECT_SITE_LIST_H */
