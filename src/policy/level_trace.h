/* policy/level_trace.h - L2. Writes down how many bytes were in use over time, in the format that `hakmem learn replay`
 * reads (docs/learning.md). Bytes in memory, no files here; the caller brings the clock and holds the lock.
 *
 * Of what happens within one ms the highest and the last value are kept: levels that fall and rise within it have gaps of
 * 0. Where there is no room it is the same for as long as that lasts: records are differences of values that are
 * known, so nothing is wrong afterwards, only coarser.
 */
#ifndef HK_POLICY_LEVEL_TRACE_H
#define HK_POLICY_LEVEL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* What bytes are counted in: all that is in use are whole slabs. */
#define HK_LEVEL_TRACE_UNIT_BYTES HK_SLAB_BYTES

#define HK_LEVEL_TRACE_HEADER_BYTES 28u
/* What stands before a chunk's payload. */
#define HK_LEVEL_TRACE_HEAD_BYTES 12u
/* Chosen: a thousand records. */
#define HK_LEVEL_TRACE_PAYLOAD_BYTES 4096u
/* Chosen: a chunk that began so long ago is full: who is killed has lost no more than that. */
#define HK_LEVEL_TRACE_CHUNK_MS 1000u

/* All zero: empty. */
typedef struct {
  uint32_t bytes;
  uint32_t record_count;
  uint64_t start_ms;
  unsigned char payload[HK_LEVEL_TRACE_PAYLOAD_BYTES];
} hk_level_chunk_t;

typedef struct {
  uint64_t ms;
  uint64_t units;
} hk_level_record_t;

/* One owner, who holds a lock. */
typedef struct {
  hk_level_record_t written; /* into some chunk, last */
  hk_level_record_t highest; /* of what came since, which is in no chunk yet */
  hk_level_record_t last;
  bool is_pending; /* something did come since */
} hk_level_trace_t;

/* The file's first HK_LEVEL_TRACE_HEADER_BYTES. A price of 0 is not known. */
void hk_level_trace_header(unsigned char *bytes, uint64_t ns_per_mib_second);

/* Time counts from here on, and nothing is in use. */
void hk_level_trace_begin(hk_level_trace_t *trace, uint64_t now_ms);

/* So much is in use now. What came before goes into the chunk, where it has room. A time before the latest one counts as
 * the latest. */
void hk_level_trace_note(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms, size_t in_use_bytes);

/* What is in no chunk goes into this one, and what is in use last lasted until now. The chunk is empty. */
void hk_level_trace_end(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms);

/* Time to write the chunk, and to go on with another. */
bool hk_level_chunk_is_full(const hk_level_chunk_t *chunk, uint64_t now_ms);

/* The HK_LEVEL_TRACE_HEAD_BYTES that stand before the chunk's payload in the file. */
void hk_level_chunk_head(const hk_level_chunk_t *chunk, unsigned char *bytes);

HK_C_END

#endif /* HK_POLICY_LEVEL_TRACE_H */
