/* bench/micro/idle_server.c - a server that is idle most of the time: requests come in bursts, --every-ms from one
 * burst's begin to the next one's, and between them nothing happens. Measures the memory that stays resident then.
 *
 * In a burst each thread fills its slots and replaces blocks at random; at its end it frees all but a few, which live
 * until the burst after the next. Bursts come by the clock, so a run takes the same time under every allocator: its
 * costs are CPU time and memory. Besides the operations the report has means over the pauses: the live bytes, and the
 * resident bytes beyond those of the start, at the end of a burst and when the next one comes.
 */
#include <errno.h>

#include "block.h"

enum { option_least, option_most, option_slots, option_burst, option_every_ms, option_keep };
static bench_option_t options[] = {
    [option_least] = {"least", "bytes of the smallest block", 16, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_most] = {"most", "bytes of the largest block", 8192, slot_bytes_least, 1 << 26, NULL, NULL},
    [option_slots] = {"slots", "how many blocks live at once in a burst, for each thread", 10000, 1, 1 << 22, NULL,
                      NULL},
    [option_burst] = {"burst", "operations of a thread in a burst", 20000, 1, 1 << 30, NULL, NULL},
    [option_every_ms] = {"every-ms", "from the begin of a burst to that of the next one", 250, 1, 1 << 20, NULL, NULL},
    [option_keep] = {"keep", "blocks that outlive their burst, in a thousand", 30, 0, 1000, NULL, NULL},
};

/* Only thread 0 looks: resident memory is the process's. In KiB, summed over the pauses. */
static struct { uint64_t pauses, live_busy, resident_busy, live_idle, resident_idle; } seen;

typedef struct {
  slot_t *busy;    /* of the burst */
  slot_t *kept[2]; /* of this burst and of the one before */
  uint64_t kept_count[2];
} blocks_t;

static uint64_t bytes_in(const slot_t *slots, uint64_t count) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) bytes += slots[i].block ? slots[i].size : 0;
  return bytes;
}

static uint64_t live_kib(const bench_t *bench, const blocks_t *blocks) {
  const uint64_t busy_bytes = bytes_in(blocks->busy, options[option_slots].value);
  const uint64_t kept_bytes =
      bytes_in(blocks->kept[0], blocks->kept_count[0]) + bytes_in(blocks->kept[1], blocks->kept_count[1]);
  return (busy_bytes + kept_bytes) * bench->threads / 1024;
}

static void take_requests(slot_t *slots, uint64_t count, uint64_t *random, bench_work_t *done) {
  for (uint64_t i = 0; i < count; ++i) {
    slot_t *slot = &slots[bench_below(random, options[option_slots].value)];
    const size_t size = bench_between_doublings(random, options[option_least].value, options[option_most].value);
    slot_clear(slot);
    slot_fill(slot, size, *random);
    /* A program writes what it asks for. */
    memset((char *)slot->block + slot_bytes_least, (int)i, size - slot_bytes_least);
    slot_stamp(slot);
    done->bytes += size;
  }
  done->ops += count;
}

/* Frees what the last but one burst left, and all of this burst's but what it leaves. */
static void end_burst(blocks_t *blocks, unsigned burst, uint64_t *random) {
  slot_t *kept = blocks->kept[burst % 2];
  uint64_t *kept_count = &blocks->kept_count[burst % 2];
  slots_clear(kept, *kept_count);
  *kept_count = 0;
  for (uint64_t i = 0; i < options[option_slots].value; ++i) {
    slot_t *slot = &blocks->busy[i];
    if (slot->block && bench_below(random, 1000) < options[option_keep].value) {
      kept[(*kept_count)++] = *slot;
      slot->block = NULL;
    } else {
      slot_clear(slot);
    }
  }
}

static void sleep_until(uint64_t time_ns) {
  const struct timespec time = {.tv_sec = (time_t)(time_ns / 1000000000u), .tv_nsec = (long)(time_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) continue;
}

static bench_work_t work(const bench_t *bench, unsigned thread) {
  const uint64_t slot_count = options[option_slots].value;
  blocks_t blocks = {slots_new(slot_count), {slots_new(slot_count), slots_new(slot_count)}, {0, 0}};
  uint64_t random = bench_random(bench, thread), todo;
  const uint64_t resident_at_start = bench_resident_kib();
  bench_work_t done = {0, 0};
  for (unsigned burst = 0; (todo = bench_next(bench, done.ops, options[option_burst].value)) != 0; ++burst) {
    if (burst > 0) {
      sleep_until(bench->start_ns + burst * options[option_every_ms].value * 1000000u);
      if (thread == 0) seen.resident_idle += bench_resident_kib() - resident_at_start;
    }
    take_requests(blocks.busy, todo, &random, &done);
    const uint64_t live_busy = live_kib(bench, &blocks), resident_busy = bench_resident_kib();
    end_burst(&blocks, burst, &random);
    /* After the last burst comes no pause. */
    if (thread != 0 || bench_next(bench, done.ops, 1) == 0) continue;
    ++seen.pauses;
    seen.live_busy += live_busy;
    seen.resident_busy += resident_busy - resident_at_start;
    seen.live_idle += live_kib(bench, &blocks);
  }
  slots_clear(blocks.kept[0], blocks.kept_count[0]);
  slots_clear(blocks.kept[1], blocks.kept_count[1]);
  return done;
}

int main(int argc, char **argv) {
  bench_t bench = {
      .name = "idle_server",
      .help = "bursts of requests, and pauses in which nothing happens",
      .ops = 640000,
      .seed = 1,
      .threads = 4,
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  bench_start(&bench, argc, argv);
  if (options[option_least].value > options[option_most].value) bench_usage_error(&bench, "--least is above --most");
  bench_run(&bench, work);
  const uint64_t pauses = seen.pauses ? seen.pauses : 1;
  bench_note(&bench, "live_busy_kib", seen.live_busy / pauses);
  bench_note(&bench, "resident_busy_kib", seen.resident_busy / pauses);
  bench_note(&bench, "live_idle_kib", seen.live_idle / pauses);
  bench_note(&bench, "resident_idle_kib", seen.resident_idle / pauses);
  return bench_report(&bench);
}
