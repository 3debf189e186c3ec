/* inspect/leak.h - L8. Sampled blocks that are still live, by the call stacks that allocated them. With a scan: which
 * of them the program can still reach. */
#ifndef HK_INSPECT_LEAK_H
#define HK_INSPECT_LEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "inspect/root.h"
#include "unwind/site.h"

HK_C_BEGIN

/* Longest time of a scan. */
#define HK_LEAK_SCAN_MS 20000

typedef enum {
  hk_leak_unreachable,
  hk_leak_reachable,
  hk_leak_unjudged, /* no scan was made, or the block was allocated during the scan, or is guarded */
  hk_leak_kind_count
} hk_leak_kind_t;

typedef struct {
  uint64_t samples;
  uint64_t blocks_q16; /* an estimate, as `bytes`: the blocks that the samples stand for */
  uint64_t bytes;
} hk_leak_sums_t;

typedef struct {
  const hk_site_t *site; /* NULL: the entry is empty */
  hk_leak_sums_t of[hk_leak_kind_count];
} hk_leak_row_t;

typedef enum {
  hk_leak_not_scanned,
  hk_leak_scanned,
  hk_leak_out_of_time, /* then no block counts as unreachable */
  hk_leak_stopped,     /* `may_go_on` returned false; then no block counts as unreachable */
  hk_leak_no_memory,
  hk_leak_no_mappings
} hk_leak_scan_t;

typedef struct {
  hk_leak_row_t *rows; /* in its own mapping */
  size_t row_count;    /* includes empty rows */
  hk_leak_sums_t all[hk_leak_kind_count];
  uint64_t rate_bytes; /* 0: the profile is off */
  uint64_t samples;    /* all samples since the process started */
  uint64_t lost;       /* samples that the table had no room for */
  hk_leak_scan_t scan;
  uint64_t scan_ms;
  uint64_t scan_bytes;       /* bytes that the scan has read */
  hk_root_threads_t threads; /* threads that the scan has seen */
} hk_leak_t;

/* Fills `leak` with the sums of all live samples by site, and scans if `is_scanned`. `frame` is the address at which
 * the caller's own stack begins (inspect/root.h). The scan calls `may_go_on` often and stops when it returns false;
 * NULL means true. Returns false when the system refuses memory; then hk_leak_end must not be called. */
bool hk_leak_take(hk_leak_t *leak, bool is_scanned, uintptr_t frame, bool (*may_go_on)(void));
void hk_leak_end(hk_leak_t *leak);

HK_C_END

#endif /* HK_INSPECT_LEAK_H */
