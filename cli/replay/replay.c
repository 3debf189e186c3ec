/* cli/replay/replay.c - the costs of a program's dirty memory: runs the learner of src/policy, or one of its
 * candidates, over a trace of bytes in use with a simulated clock. Part of libhakmem-policy.so, which `hakmem learn`
 * loads (cli/hakmem/policy_library.py declares the same functions); no part of libhakmem.so.
 *
 * The replay counts costs from resident memory, the learner counts them from gaps: each is the test of the other.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/format.h"
#include "base/units.h"
#include "policy/learn.h"

#define SHOWN __attribute__((visibility("default")))

/* The library's functions, in the order of the tool's declarations. */
SHOWN uint64_t hk_replay_price_of_mode(const char *name);
SHOWN uint64_t hk_replay_price_limit(int most);
SHOWN int hk_replay_candidates(uint64_t price, uint64_t *timeout_ms, int *break_even);
SHOWN uint64_t hk_replay_fixed(const uint64_t *time_ms, const uint64_t *in_use_bytes, size_t count, uint64_t price,
                               int candidate, const uint64_t *stop_ms, size_t stop_count, uint64_t *cost_ns);
SHOWN uint64_t hk_replay_learner(const uint64_t *time_ms, const uint64_t *in_use_bytes, size_t count, uint64_t price,
                                 uint64_t *epoch_ms, uint64_t *timeout_ms, uint64_t *cost_ns, size_t *epoch_count,
                                 char *log, size_t log_capacity, int64_t *rating);

#define LEARNER (-1)

typedef struct {
  hk_learn_t learn;
  size_t top_bytes;  /* in use and dirty */
  size_t peak_bytes; /* of the bytes in use: above it, memory is new to every candidate */
  uint64_t cost;     /* in KiB x ms */
} replay_t;

static uint64_t kib(size_t bytes) { return bytes / HK_KIB; }

static void purge(replay_t *replay) {
  const hk_level_t *level = &replay->learn.level;
  size_t top_bytes = level->in_use_bytes + hk_learn_kept_bytes(&replay->learn);
  if (top_bytes >= replay->top_bytes) return;
  replay->cost += kib(replay->top_bytes - top_bytes) * replay->learn.price.purge_ms;
  replay->top_bytes = top_bytes;
}

/* Counts purged memory that is requested again. */
static void want(replay_t *replay, size_t in_use_bytes) {
  size_t again_bytes = in_use_bytes < replay->peak_bytes ? in_use_bytes : replay->peak_bytes;
  if (again_bytes > replay->top_bytes) {
    replay->cost += kib(again_bytes - replay->top_bytes) * replay->learn.price.fault_ms;
  }
  if (in_use_bytes > replay->top_bytes) replay->top_bytes = in_use_bytes;
  if (in_use_bytes > replay->peak_bytes) replay->peak_bytes = in_use_bytes;
}

/* Lets time pass until `to_ms`, with the purges that become due. */
static void wait_until(replay_t *replay, uint64_t to_ms) {
  const hk_level_t *level = &replay->learn.level;
  while (level->now_ms < to_ms) {
    purge(replay);
    uint64_t due_ms, now_ms = level->now_ms, next_ms = to_ms;
    if (hk_learn_next_due(&replay->learn, &due_ms) && due_ms < next_ms) next_ms = due_ms;
    replay->cost += kib(replay->top_bytes - level->in_use_bytes) * (next_ms - now_ms);
    if (next_ms < to_ms) hk_learn_note(&replay->learn, next_ms, level->in_use_bytes);
    hk_level_pass(&replay->learn.level, next_ms);
  }
  purge(replay);
}

static void change(replay_t *replay, uint64_t time_ms, size_t in_use_bytes) {
  want(replay, in_use_bytes);
  hk_learn_note(&replay->learn, time_ms, in_use_bytes);
}

/* `candidate`: the one that decides about all memory from start to end, or LEARNER. */
static bool begin(replay_t *replay, uint64_t price, int candidate, uint64_t start_ms) {
  memset(replay, 0, sizeof *replay);
  if (!hk_learn_init(&replay->learn, start_ms, price)) return false;
  hk_level_pass(&replay->learn.level, start_ms);
  if (candidate == LEARNER) return true;
  hk_learn_fix(&replay->learn, true);
  hk_learn_lead(&replay->learn, hk_learn_loaded, hk_learn_state_learning, (unsigned)candidate);
  return true;
}

static uint64_t cost_so_far(const replay_t *replay) { return hk_price_ns(&replay->learn.price, replay->cost); }

/* 0 when there is no such mode. */
uint64_t hk_replay_price_of_mode(const char *name) {
#define HK_PRICE_MODE(mode, ns_per_mib_second) \
  if (strcmp(name, #mode) == 0) return ns_per_mib_second;
  HK_PRICE_MODES
#undef HK_PRICE_MODE
  return 0;
}

uint64_t hk_replay_price_limit(int most) { return most ? HK_PRICE_MAX : HK_PRICE_MIN; }

int hk_replay_candidates(uint64_t price, uint64_t *timeout_ms, int *break_even) {
  hk_price_t costs;
  if (!hk_price_init(&costs, price)) return 0;
  memcpy(timeout_ms, costs.timeout_ms, sizeof costs.timeout_ms);
  *break_even = (int)HK_PRICE_BREAK_EVEN;
  return (int)HK_PRICE_CANDIDATES;
}

/* Returns a candidate's cost in ns, and its cost up to each stop. Requires rising stops. */
uint64_t hk_replay_fixed(const uint64_t *time_ms, const uint64_t *in_use_bytes, size_t count, uint64_t price,
                         int candidate, const uint64_t *stop_ms, size_t stop_count, uint64_t *cost_ns) {
  replay_t replay;
  size_t stop = 0;
  if (count == 0 || !begin(&replay, price, candidate, time_ms[0])) return 0;
  for (size_t i = 0; i < count; i++) {
    for (; stop < stop_count && stop_ms[stop] < time_ms[i]; stop++) {
      wait_until(&replay, stop_ms[stop]);
      cost_ns[stop] = cost_so_far(&replay);
    }
    wait_until(&replay, time_ms[i]);
    change(&replay, time_ms[i], in_use_bytes[i]);
  }
  for (; stop < stop_count; stop++) cost_ns[stop] = cost_so_far(&replay);
  return cost_so_far(&replay);
}

static void note_epoch(const replay_t *replay, uint64_t *epoch_ms, uint64_t *timeout_ms, uint64_t *cost_ns,
                       size_t capacity, size_t *used) {
  if (*used == capacity) return;
  epoch_ms[*used] = replay->learn.level.now_ms;
  timeout_ms[*used] = hk_learn_timeout_ms(&replay->learn);
  cost_ns[*used] = cost_so_far(replay);
  (*used)++;
}

static void write_log(const hk_learn_log_t *log, char *text, size_t capacity) {
  hk_format_t format;
  hk_format_init(&format, text, capacity);
  for (uint64_t back = HK_LEARN_LOG_ENTRIES; back-- > 0;) {
    const hk_learn_decision_t *decision = hk_learn_log_find(log, back);
    if (decision == NULL) continue;
    hk_format_print(&format, "%u ms: ", decision->now_ms);
    hk_learn_decision_text(decision, &format);
    hk_format_text(&format, "\n");
  }
}

/* Returns the learner's cost in ns; for each epoch its end, the time-out after it, and the cost up to then.
 * `*epoch_count` is the room for epochs, and then their number. */
uint64_t hk_replay_learner(const uint64_t *time_ms, const uint64_t *in_use_bytes, size_t count, uint64_t price,
                           uint64_t *epoch_ms, uint64_t *timeout_ms, uint64_t *cost_ns, size_t *epoch_count, char *log,
                           size_t log_capacity, int64_t *rating) {
  replay_t replay;
  size_t capacity = *epoch_count;
  uint64_t epoch = 0;
  *epoch_count = 0;
  if (count == 0 || !begin(&replay, price, LEARNER, time_ms[0])) return 0;
  for (size_t i = 0; i < count; i++) {
    wait_until(&replay, time_ms[i]);
    change(&replay, time_ms[i], in_use_bytes[i]);
    if (replay.learn.epoch != epoch) note_epoch(&replay, epoch_ms, timeout_ms, cost_ns, capacity, epoch_count);
    epoch = replay.learn.epoch;
  }
  write_log(&replay.learn.log, log, log_capacity);
  for (unsigned i = 0; i < HK_PRICE_CANDIDATES; i++) rating[i] = hk_learn_rating(&replay.learn, i);
  return cost_so_far(&replay);
}
