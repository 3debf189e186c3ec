/* bench/micro/trace.c - replays a recorded allocation trace (bench/traces/README.md has the format), again and again.
 *
 * The trace is read before the clock runs. Each thread replays it for itself. Blocks that live at its end are freed,
 * and the next round starts from nothing. An operation is a line of the trace.
 */
#include "block.h"
#include "trace_file.h"

enum { option_file };
static bench_option_t options[] = {
    [option_file] = {"file", "the trace", 0, 0, 0, NULL, ""},
};
static trace_t trace;

static void fill_zeroed(slot_t *slot, size_t size, uint64_t tag) {
  *slot = (slot_t){block_calloc(size), (uint32_t)size, (uint32_t)tag};
  const char *bytes = slot->block;
  if (BENCH_UNLIKELY(bytes[0] != 0 || bytes[size - 1] != 0)) bench_fail("calloc returned memory that is not zero");
  slot_stamp(slot);
}

static void replay(const event_t *event, slot_t *slot, uint64_t tag) {
  /* The stamp needs its 8 bytes. */
  const size_t size = event->size < slot_bytes_least ? slot_bytes_least : event->size;
  if (event->kind == '+') {
    slot_fill(slot, size, tag);
  } else if (event->kind == '-') {
    slot_clear(slot);
  } else if (event->kind == '=') {
    slot_resize(slot, size, tag);
  } else {
    fill_zeroed(slot, size, tag);
  }
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  slot_t *slots = slots_new(trace.slot_count);
  uint64_t tag = bench_random(bench, thread);
  bench_work_t done = {0, 0};
  for (uint64_t todo; (todo = bench_next(bench, done.ops, trace.event_count)) != 0; done.ops += todo) {
    for (uint64_t i = 0; i < todo; ++i) {
      const event_t *event = &trace.events[i];
      replay(event, &slots[event->slot], tag++);
      done.bytes += event->size;
    }
    slots_clear(slots, trace.slot_count);
  }
  block_thread_end();
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "trace",
      .help = "replay a recorded allocation trace",
      .ops = 10000000,
      .seed = 1,
      .threads = 1,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  trace = trace_read(&bench, options[option_file].text);
  bench_run(&bench, work);
  bench_note(&bench, "events", trace.event_count);
  bench_note(&bench, "slots", trace.slot_count);
  return bench_report(&bench);
}
