/* policy/level_trace.c - L2. See level_trace.h. */
#include "policy/level_trace.h"

#include <string.h>

#include "base/bytes.h"

static const unsigned char magic[8] = {'h', 'k', 'L', 'E', 'V', 'E', 'L', '\n'};

#define VERSION 1u
/* Two numbers of 64 bits, with seven bits in a byte. */
#define LONGEST_POINT 20u

void hk_level_trace_header(unsigned char *bytes, uint64_t ns_per_mib_second) {
  memcpy(bytes, magic, sizeof magic);
  hk_bytes_put(bytes + 8, VERSION, 2);
  hk_bytes_put(bytes + 10, HK_LEVEL_TRACE_HEADER_BYTES, 2);
  hk_bytes_put(bytes + 12, HK_LEVEL_TRACE_UNIT_BYTES, 4);
  hk_bytes_put(bytes + 16, ns_per_mib_second, 8);
  hk_bytes_put(bytes + 24, hk_bytes_crc32(0, bytes, 24), 4);
}

void hk_level_chunk_head(const hk_level_chunk_t *chunk, unsigned char *bytes) {
  hk_bytes_put(bytes, chunk->bytes, 4);
  hk_bytes_put(bytes + 4, chunk->point_count, 4);
  hk_bytes_put(bytes + 8, hk_bytes_crc32(hk_bytes_crc32(0, bytes, 8), chunk->payload, chunk->bytes), 4);
}

/* ---- Points. */

static void put_number(hk_level_chunk_t *chunk, uint64_t value) {
  for (; value >= 0x80; value >>= 7) chunk->payload[chunk->bytes++] = (unsigned char)(value | 0x80);
  chunk->payload[chunk->bytes++] = (unsigned char)value;
}

static bool has_room(const hk_level_chunk_t *chunk) {
  return chunk->bytes + 2 * LONGEST_POINT <= HK_LEVEL_TRACE_PAYLOAD_BYTES;
}

static void put_point(hk_level_trace_t *trace, hk_level_chunk_t *chunk, const hk_level_point_t *point) {
  bool is_rise = point->units >= trace->written.units;
  uint64_t change = is_rise ? point->units - trace->written.units : trace->written.units - point->units;
  if (chunk->point_count++ == 0) chunk->start_ms = point->ms;
  put_number(chunk, point->ms - trace->written.ms);
  put_number(chunk, is_rise ? 2 * change : 2 * change - 1);
  trace->written = *point;
}

static void put_pending(hk_level_trace_t *trace, hk_level_chunk_t *chunk) {
  if (!trace->is_pending || !has_room(chunk)) return;
  trace->is_pending = false;
  bool is_peak = trace->highest.units > trace->written.units && trace->highest.units > trace->last.units;
  if (is_peak) put_point(trace, chunk, &trace->highest);
  if (trace->last.units != trace->written.units) put_point(trace, chunk, &trace->last);
}

/* ---- Time. */

void hk_level_trace_begin(hk_level_trace_t *trace, uint64_t now_ms) {
  hk_level_point_t nothing = {.ms = now_ms, .units = 0};
  *trace = (hk_level_trace_t){.written = nothing, .highest = nothing, .last = nothing};
}

void hk_level_trace_note(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms, size_t in_use_bytes) {
  if (now_ms > trace->last.ms) put_pending(trace, chunk);
  hk_level_point_t now = {.ms = now_ms > trace->last.ms ? now_ms : trace->last.ms,
                          .units = (in_use_bytes + HK_LEVEL_TRACE_UNIT_BYTES - 1) / HK_LEVEL_TRACE_UNIT_BYTES};
  if (!trace->is_pending || now.units > trace->highest.units) trace->highest = now;
  trace->last = now;
  trace->is_pending = true;
}

void hk_level_trace_end(hk_level_trace_t *trace, hk_level_chunk_t *chunk, uint64_t now_ms) {
  put_pending(trace, chunk);
  trace->last.ms = now_ms > trace->last.ms ? now_ms : trace->last.ms;
  put_point(trace, chunk, &trace->last);
}

bool hk_level_chunk_is_full(const hk_level_chunk_t *chunk, uint64_t now_ms) {
  if (chunk->point_count == 0) return false;
  return !has_room(chunk) || (now_ms > chunk->start_ms && now_ms - chunk->start_ms >= HK_LEVEL_TRACE_CHUNK_MS);
}
