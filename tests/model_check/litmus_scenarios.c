/* Checks the checker by small programs for which the outcomes that the C memory model allows are known. Each lists all
 * of them, and each has to occur. Load buffering is the exception: the checker does not model it, and the list says so.
 * An outcome is the bits that the threads read, the first one highest. */
#include "base/atomic.h"
#include "model_check/checker.h"
#include "os/os.h"

static _Atomic(uint32_t) x, y;
static uint32_t data;
static unsigned seen[4];

#define OUTCOME(a, b, c, d) (UINT64_C(1) << ((a)*8 + (b)*4 + (c)*2 + (d)))

static void report(void) { checker_outcome(seen[0] * 8 + seen[1] * 4 + seen[2] * 2 + seen[3]); }

static void write_x(void) { hk_store_relaxed(&x, 1); }
static void write_y(void) { hk_store_relaxed(&y, 1); }

/* ---- Store buffering: both may miss the other's store. */
static void write_x_read_y(void) {
  hk_store_release(&x, 1);
  seen[2] = hk_load_acquire(&y);
}
static void write_y_read_x(void) {
  hk_store_release(&y, 1);
  seen[3] = hk_load_acquire(&x);
}

/* ---- Message passing. */
static void send_relaxed(void) {
  hk_store_relaxed(&x, 1);
  hk_store_relaxed(&y, 1);
}
static void send_release(void) {
  hk_store_relaxed(&x, 1);
  hk_store_release(&y, 1);
}
static void receive_relaxed(void) {
  seen[2] = hk_load_relaxed(&y);
  seen[3] = hk_load_relaxed(&x);
}
static void receive_acquire(void) {
  seen[2] = hk_load_acquire(&y);
  seen[3] = hk_load_relaxed(&x);
}
static void send_data(void) {
  data = 1;
  hk_store_release(&y, 1);
}
static void receive_data(void) {
  if (hk_load_acquire(&y) == 1) seen[3] = data;
  seen[2] = 1;
}

/* ---- Release sequence: a read-modify-write in between passes the release on. */
static void add_to_y(void) {
  if (hk_load_relaxed(&y) == 1) (void)hk_add_relaxed(&y, 1);
}
static void receive_two(void) {
  if (hk_load_acquire(&y) != 2) return;
  seen[2] = 1;
  seen[3] = hk_load_relaxed(&x);
}
/* ---- A store of another thread in between does not. */
static void store_two(void) {
  if (hk_load_relaxed(&y) == 1) hk_store_relaxed(&y, 2);
}

/* ---- Coherence: the later of two loads of a variable does not read an older value. */
static void read_x_twice(void) {
  seen[2] = hk_load_relaxed(&x);
  seen[3] = hk_load_relaxed(&x);
}

/* ---- Two readers may see two writers' stores in different orders (POWER and C allow it, arm64 does not). */
static void read_xy(void) {
  seen[0] = hk_load_acquire(&x);
  seen[1] = hk_load_acquire(&y);
}
static void read_yx(void) {
  seen[2] = hk_load_acquire(&y);
  seen[3] = hk_load_acquire(&x);
}

/* ---- Load buffering. */
static void read_x_write_y(void) {
  seen[2] = hk_load_relaxed(&x);
  hk_store_relaxed(&y, 1);
}
static void read_y_write_x(void) {
  seen[3] = hk_load_relaxed(&y);
  hk_store_relaxed(&x, 1);
}

/* ---- Two writers of two variables: in each variable either store may be the last. */
static void write_xy(void) {
  hk_store_relaxed(&x, 1);
  hk_store_relaxed(&y, 2);
}
static void write_yx(void) {
  hk_store_relaxed(&y, 1);
  hk_store_relaxed(&x, 2);
}
static void report_2w(void) {
  seen[2] = hk_load_relaxed(&x) == 1;
  seen[3] = hk_load_relaxed(&y) == 1;
  report();
}

/* ---- Causality through a third thread. */
static void pass_on(void) {
  if (hk_load_acquire(&x) == 1) hk_store_release(&y, 1);
}

/* ---- Read-modify-writes. */
static void add_left(void) { seen[2] = hk_add_relaxed(&x, 1); }
static void add_right(void) { seen[3] = hk_add_relaxed(&x, 1); }
static void win_left(void) {
  uint32_t expected = 0;
  seen[2] = hk_compare_exchange_acquire(&x, &expected, 1);
}
static void win_right(void) {
  uint32_t expected = 0;
  seen[3] = hk_compare_exchange_acquire(&x, &expected, 1);
}
/* Clang's instrumentation does not say which exchanges are weak. */
#ifdef __clang__
#define WEAK_OUTCOMES OUTCOME(0, 0, 0, 1)
#else
#define WEAK_OUTCOMES (OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1))
#endif
static void win_weakly(void) {
  uint32_t expected = 0;
  seen[3] = hk_compare_exchange_weak_release(&x, &expected, 1);
}

static void write_data(void) { data = 1; }
static void read_data(void) { seen[3] = data; }
static void send_data_relaxed(void) {
  data = 1;
  hk_store_relaxed(&y, 1);
}
static void read_x_plainly(void) { seen[3] = *(volatile uint32_t *)&x; }

static struct { uint8_t left, right; } bytes;
static void write_byte_0(void) { bytes.left = 1; }
static void write_byte_1(void) { bytes.right = 1; }

/* ---- Violations. */
static void wait_for_x(void) { hk_os_wait((const uint32_t *)&x, 0); }
static void turn_for_ever(void) {
  while (hk_load_relaxed(&x) == 0) continue;
}
#define MEMORY_BYTES 4096
static uint32_t *memory;
static void map_memory(void) {
  memory = hk_os_reserve(MEMORY_BYTES, MEMORY_BYTES);
  *memory = 1;
}
static void unmap_memory(void) {
  hk_store_relaxed(&x, 1);
  (void)hk_os_unmap(memory, MEMORY_BYTES);
  hk_store_relaxed(&x, 2);
}
static void purge_memory(void) {
  hk_store_relaxed(&x, 1);
  (void)hk_os_purge(memory, MEMORY_BYTES);
  hk_store_relaxed(&x, 2);
}
static void use_memory(void) {
  if (hk_load_relaxed(&x) == 2) memory[1] = 1;
}

const scenario_t scenarios[] = {
    {.name = "store_buffering",
     .thread = {write_x_read_y, write_y_read_x},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "message_relaxed",
     .thread = {send_relaxed, receive_relaxed},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "message_released_not_acquired",
     .thread = {send_release, receive_relaxed},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "message_acquired_not_released",
     .thread = {send_relaxed, receive_acquire},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "message_passing",
     .thread = {send_release, receive_acquire},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 1)},
    {.name = "message_plain",
     .thread = {send_data, receive_data},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "release_sequence",
     .thread = {send_release, add_to_y, receive_two},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "no_release_sequence",
     .thread = {send_release, store_two, receive_two},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "coherence",
     .thread = {write_x, read_x_twice},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 1)},
    {.name = "independent_reads", .thread = {write_x, write_y, read_xy, read_yx}, .finish = report, .outcomes = 0xffff},
    {.name = "load_buffering_is_left_out",
     .thread = {read_x_write_y, read_y_write_x},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0)},
    {.name = "two_writers",
     .thread = {write_xy, write_yx},
     .finish = report_2w,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0) | OUTCOME(0, 0, 1, 1)},
    {.name = "causality",
     .thread = {write_x, pass_on, receive_acquire},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 0) | OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 1)},
    {.name = "additions",
     .thread = {add_left, add_right},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0)},
    {.name = "one_winner",
     .thread = {win_left, win_right},
     .finish = report,
     .outcomes = OUTCOME(0, 0, 0, 1) | OUTCOME(0, 0, 1, 0)},
    {.name = "weak_exchange", .thread = {win_weakly}, .finish = report, .outcomes = WEAK_OUTCOMES},
    {.name = "race", .thread = {write_data, read_data}, .violation = "data race"},
    {.name = "race_after_relaxed", .thread = {send_data_relaxed, receive_data}, .violation = "data race"},
    {.name = "race_of_bytes", .thread = {write_byte_0, write_byte_1}},
    {.name = "race_with_atomic", .thread = {write_x, read_x_plainly}, .violation = "data race"},
    {.name = "deadlock", .thread = {wait_for_x}, .violation = "deadlock"},
    {.name = "endless", .thread = {turn_for_ever}, .violation = "does not end"},
    {.name = "unmapped", .setup = map_memory, .thread = {unmap_memory, use_memory}, .violation = "not mapped"},
    {.name = "purged", .setup = map_memory, .thread = {purge_memory, use_memory}, .violation = "purged"},
    {.name = NULL},
};
