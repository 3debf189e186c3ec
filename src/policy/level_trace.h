/* policy/level_trace.h - L2. Records the bytes in use over time, in the format that `hakmem learn replay` reads
 * (docs/learning.md). It writes bytes in memory and no files. The caller passes the time and holds the lock.
 *
 * Of each ms the highest and the last value are kept: levels that fall and rise within it have gaps of 0. While a chunk
 * has no room, the same holds for that whole time. Points are differences from known values, so the rest of the trace
 * stays right, and is only coarser.
 */
#ifndef HK_POLICY_LEVEL_TRACE_H
#define HK_POLICY_LEVEL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/units.h"

HK_C_BEGIN

/* The unit of the bytes in use, which are whole slabs. */
#define HK_LEVEL_TRACE_UNIT_BYTES HK_SLAB_BYTES

/* The bytes that a trace begins with. */
#define HK_LEVEL_TRACE_HEADER_BYTES 28u
/* The bytes before a chunk's payload. */
#define HK_LEVEL_TRACE_HEAD_BYTES 12u
/* Chosen: about a thousand points. */
#define HK_LEVEL_TRACE_PAYLOAD_BYTES 4096u
/* Chosen: a chunk this old is full. A process that is killed loses no more. */
#define HK_LEVEL_TRACE_CHUNK_MS 1000u

/* Empty when all zero. */
typedef struct {
  uint32_t bytes;
  uint32_t point_count;
  uint64_t start_ms;
  unsigned char payload[HK_LEVEL_TRACE_PAYLOAD_BYTES];
} hk_level_chunk_t;

/* The bytes in use at a time, in units. */
typedef struct {
  uint64_t ms;
  uint64_t units;
} hk_level_point_t;

/* Has one owner, which holds a lock. */
typedef struct {
  hk_level_point_t written; /* the last point of a chunk */
  hk_level_point_t highest; /* the highest value since then, in no chunk yet */
  hk_level_point_t last;
  bool is_pending; /* a value came since `written` */
} hk_level_trace_t;

/* Writes the first HK_LEVEL_TRACE_HEADER_BYTES of the file. A price of 0 means unknown. */
void hk_level_trace_header(unsigned char *bytes, uint64_t ns_per_mib_second);

/* Starts the trace at `now_ms`, with no bytes in use. */
void hk_level_trace_begin(hk_level_trace_t *trace, uint64_t now_ms);

/* Notes the bytes in use now. Moves earlier values to the chunk, where it has room. A time before the latest one counts
 * as the latest. */
void hk_level_trace_note(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms, size_t in_use_bytes);

/* Ends the trace: moves all values to the chunk, with the last one lasting until `now_ms`. Requires an empty chunk. */
void hk_level_trace_end(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms);

/* Returns whether to write the chunk and go on with another. */
bool hk_level_chunk_is_full(const hk_level_chunk_t *chunk, uint64_t now_ms);

/* Writes the HK_LEVEL_TRACE_HEAD_BYTES before the chunk's payload in the file. */
void hk_level_chunk_head(const hk_level_chunk_t *chunk, unsigned char *bytes);

HK_C_END

#endif /* HK_POLICY_LEVEL_TRACE_H */
