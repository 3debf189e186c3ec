// policy/level_trace: the input is bytes in use over time, two numbers a note. A reader without code of the writer's
// has to find whole chunks, times that never fall, noted levels only, and the last level at the end.
#include "policy/level_trace.h"

#include <cstring>
#include <set>
#include <string>

#include "fuzz.h"
#include "unit/level_trace_reader.h"

namespace {

// In ms. Larger numbers stand for seconds.
constexpr int64_t kMostSmallSteps = 99;

hk_level_trace_t trace;
hk_level_chunk_t chunk;

void AppendChunk(std::string *file) {
  unsigned char head[HK_LEVEL_TRACE_HEAD_BYTES];
  if (chunk.point_count == 0) return;
  hk_level_chunk_head(&chunk, head);
  file->append(reinterpret_cast<char *>(head), sizeof head);
  file->append(reinterpret_cast<char *>(chunk.payload), chunk.bytes);
  memset(&chunk, 0, sizeof chunk);
}

uint64_t Units(uint64_t bytes) { return (bytes + HK_LEVEL_TRACE_UNIT_BYTES - 1) / HK_LEVEL_TRACE_UNIT_BYTES; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t input = {data, size};
  unsigned char header[HK_LEVEL_TRACE_HEADER_BYTES];
  uint64_t price = fuzz_number(&input, 4), now_ms = fuzz_number(&input, 4), latest_ms = now_ms, units = 0, highest = 0;
  // Some inputs leave a full chunk full, as when a file cannot be written.
  bool is_slow = (price & 1) != 0;
  hk_level_trace_header(header, price);
  std::string file(reinterpret_cast<char *>(header), sizeof header);
  std::set<uint64_t> levels = {0};
  memset(&chunk, 0, sizeof chunk);
  hk_level_trace_begin(&trace, now_ms);
  uint64_t start_ms = now_ms;
  while (input.left > 0) {
    int64_t step = static_cast<int8_t>(fuzz_number(&input, 1));
    if (step > kMostSmallSteps) step = (step - kMostSmallSteps) * 500;
    uint64_t bytes = fuzz_number(&input, 2) << 15;
    now_ms = step < 0 && now_ms < static_cast<uint64_t>(-step) ? 0 : now_ms + static_cast<uint64_t>(step);
    if (now_ms > latest_ms) latest_ms = now_ms;
    hk_level_trace_note(&trace, &chunk, now_ms, bytes);
    units = Units(bytes);
    levels.insert(units);
    if (units > highest) highest = units;
    FUZZ_CHECK(chunk.bytes <= HK_LEVEL_TRACE_PAYLOAD_BYTES);
    if (!is_slow && hk_level_chunk_is_full(&chunk, now_ms)) AppendChunk(&file);
  }
  AppendChunk(&file);
  hk_level_trace_end(&trace, &chunk, now_ms);
  AppendChunk(&file);

  hk_test::LevelFile found;
  try {
    found = hk_test::LevelReader::Read(file);
  } catch (const std::exception &error) {
    fprintf(stderr, "the trace cannot be read: %s\n", error.what());
    abort();
  }
  FUZZ_CHECK(found.price == price);
  FUZZ_CHECK(!found.points.empty());
  uint64_t last_ms = 0, most = 0;
  for (const hk_test::LevelPoint &point : found.points) {
    FUZZ_CHECK(point.ms >= last_ms);
    FUZZ_CHECK(levels.count(point.units) == 1);
    last_ms = point.ms;
    if (point.units > most) most = point.units;
  }
  FUZZ_CHECK(found.points.back().units == units);
  FUZZ_CHECK(last_ms == latest_ms - start_ms);
  if (!is_slow) FUZZ_CHECK(most == highest);
  return 0;
}
