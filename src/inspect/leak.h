/* inspect/leak.h - L8. Sampled blocks that are still live, by the stacks that asked for them; and which of them the
 * program can still reach, where that is asked too. */
#ifndef HK_INSPECT_LEAK_H
#define HK_INSPECT_LEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "inspect/root.h"
#include "unwind/site.h"

HK_C_BEGIN

/* How long a scan may take. */
#define HK_LEAK_SCAN_MS 20000

typedef enum {
  hk_leak_unreachable,
  hk_leak_reachable,
  hk_leak_unjudged, /* nobody has looked; or it came while somebody did */
  hk_leak_kind_count
} hk_leak_kind_t;

typedef struct {
  uint64_t samples;
  uint64_t blocks_q16; /* estimates: what the samples stand for */
  uint64_t bytes;
} hk_leak_sums_t;

typedef struct {
  const hk_site_t *site; /* NULL: the entry is empty */
  hk_leak_sums_t of[hk_leak_kind_count];
} hk_leak_row_t;

typedef enum {
  hk_leak_not_scanned,
  hk_leak_scanned,
  hk_leak_out_of_time, /* no block is then called unreachable */
  hk_leak_stopped,     /* nor then: the caller's `may_go_on` has said no */
  hk_leak_no_memory,
  hk_leak_no_mappings
} hk_leak_scan_t;

typedef struct {
  hk_leak_row_t *rows; /* in mapped memory of its own */
  size_t row_count;    /* with empty ones */
  hk_leak_sums_t all[hk_leak_kind_count];
  uint64_t rate_bytes; /* 0: the profile does not run any more */
  uint64_t samples;    /* that were ever made, */
  uint64_t lost;       /* and of these there was no room for */
  hk_leak_scan_t scan;
  uint64_t scan_ms;
  uint64_t scan_bytes;       /* looked at */
  hk_root_threads_t threads; /* of a scan */
} hk_leak_t;

/* Takes stock. `frame`: where the caller's own stack begins (inspect/root.h). A scan goes on while `may_go_on`, which
 * is called often, says so; NULL: it does. False when the system refuses memory: nothing is to be ended then. */
bool hk_leak_take(hk_leak_t *leak, bool is_scanned, uintptr_t frame, bool (*may_go_on)(void));
void hk_leak_end(hk_leak_t *leak);

HK_C_END

#endif /* HK_INSPECT_LEAK_H */
