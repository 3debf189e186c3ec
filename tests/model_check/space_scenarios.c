/* space: two threads free at once, two publish at once, one purges memory that another one allocates, and one moves a
 * superslab that another one uses. */
#include "base/atomic.h"
#include "model_check/checker.h"
#include "os/shard.h"
#include "policy/option.h"
#include "policy/stat.h"
#include "space/large.h"
#include "space/purge.h"
#include "space/region_map.h"
#include "space/run.h"
#include "space/superslab.h"
#include "space/superslab_index.h"

static unsigned wins[2];

static void expect_one_winner(void) { CHECK(wins[0] + wins[1] == 1, "one of two frees is the first"); }

/* ---- Runs. */

#define RUN_BYTES (100 * HK_KIB)

static hk_slab_t *run;

static void set_up_run(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  bool is_zero;
  run = hk_slab_of(hk_run_alloc(RUN_BYTES, HK_BLOCK_ALIGNMENT, &is_zero));
  checker_name(&run->state, "run's state");
}

static void free_run_left(void) { wins[0] = hk_run_free(run); }
static void free_run_right(void) { wins[1] = hk_run_free(run); }

static void expect_run_gone(void) {
  expect_one_winner();
  CHECK(hk_superslab_usage().in_use_bytes == 0, "the slabs are given back once");
}

/* One thread keeps the run for itself, as a heap does. */
static void keep_run_left(void) {
  wins[0] = hk_run_close(run);
  if (wins[0] != 0) *(unsigned *)hk_run_reopen(run) = 1;
}

/* ---- Large blocks. */

#define BIG_BYTES (3 * HK_MIB)

static void *big;
static hk_slab_t *big_slab;

static void set_up_big(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  bool is_zero;
  big = hk_large_alloc(BIG_BYTES, HK_BLOCK_ALIGNMENT, &is_zero);
  big_slab = hk_slab_of(big);
  checker_name(&big_slab->state, "big block's state");
}

static void free_big_left(void) { wins[0] = hk_large_free(big_slab, big); }
static void free_big_right(void) { wins[1] = hk_large_free(big_slab, big); }

static void expect_big_gone(void) {
  expect_one_winner();
  CHECK(hk_large_usage().count == 0 && hk_large_usage().mapped_bytes == 0, "it is counted out once");
  CHECK(hk_slab_state(big_slab) != hk_slab_large, "its descriptor has let go of it");
}

/* A new block may get the addresses of a freed one, which the program no longer uses. */
static _Atomic(bool) is_freed;

static void free_big_and_say(void) {
  *(unsigned *)big = 1;
  CHECK(hk_large_free(big_slab, big), "it is freed once");
  hk_store_release(&is_freed, true);
}

static void alloc_big_and_use(void) {
  bool is_zero;
  unsigned *block = hk_large_alloc(BIG_BYTES, HK_BLOCK_ALIGNMENT, &is_zero);
  CHECK(block != NULL, "there is memory");
  CHECK(!is_zero || *block == 0, "what is said to be zero is zero");
  *block = 2;
  CHECK(hk_slab_state(hk_slab_of(block)) == hk_slab_large, "its descriptor says what it is");
  if (hk_load_acquire(&is_freed)) CHECK(*block == 2, "it is the block's own memory");
}

static void use_large(unsigned number) {
  bool is_zero;
  unsigned *block = hk_large_alloc(BIG_BYTES, HK_BLOCK_ALIGNMENT, &is_zero);
  CHECK(block != NULL, "there is memory");
  CHECK(!is_zero || *block == 0, "what is said to be zero is zero");
  *block = number;
  CHECK(*block == number, "what is in use keeps its contents");
  CHECK(hk_large_free(hk_slab_of(block), block), "it is freed once");
}
static void use_large_1(void) { use_large(1); }
static void use_large_2(void) { use_large(2); }
static void expect_no_large(void) { CHECK(hk_large_usage().count == 0, "all are counted out"); }

static void expect_big_one(void) { CHECK(hk_large_usage().count == 1, "one block is left"); }

/* ---- The region map. */

/* An address in a region that is not entered yet. */
#define NEW_ADDRESS ((void *)(UINT64_C(0x1234) << HK_REGION_SHIFT | 5 * HK_SLAB_BYTES))

static hk_slab_t *found[3];
static size_t mapped_before;

static void set_up_region(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  mapped_before = hk_region_map_mapped_bytes();
  checker_name(&hk_region_map.distance[0x1234], "leaf of the region");
}

static void enter_region(unsigned index) {
  CHECK(hk_region_map_enter(NEW_ADDRESS, HK_SLAB_BYTES), "there is memory");
  found[index] = hk_slab_of(NEW_ADDRESS);
  CHECK(checker_is_mapped(found[index], sizeof(hk_slab_t)), "who entered a region finds its leaf");
}
static void enter_region_0(void) { enter_region(0); }
static void enter_region_1(void) { enter_region(1); }
static void enter_region_2(void) { enter_region(2); }

static void expect_one_leaf(void) {
  CHECK(found[0] == found[1], "both find the same leaf");
  CHECK(hk_slab_state(found[0]) == hk_slab_none, "a new leaf says nothing");
  CHECK(found[2] == NULL || found[2] == found[0], "and so does a third");
  CHECK(hk_region_map_mapped_bytes() == mapped_before + sizeof(hk_region_t), "there is one leaf");
}

/* One thread passes a block to another, which finds the descriptor as the first one wrote it. */
static _Atomic(void *) hand_over;

static void enter_and_hand_over(void) {
  CHECK(hk_region_map_enter(NEW_ADDRESS, HK_SLAB_BYTES), "there is memory");
  hk_slab_t *slab = hk_slab_of(NEW_ADDRESS);
  slab->starts.inverse = 7;
  hk_slab_set_state(slab, hk_slab_small);
  hk_store_release(&hand_over, NEW_ADDRESS);
}

static void look_up(void) {
  void *address = hk_load_acquire(&hand_over);
  if (address == NULL) return;
  hk_slab_t *slab = hk_slab_of(address);
  CHECK(hk_slab_state(slab) == hk_slab_small && slab->starts.inverse == 7,
        "a block that was handed over has its descriptor");
}

/* Looks up an address without an owner: the result is "not ours", in any leaf that the lookup finds. */
static void look_up_anything(void) {
  CHECK(hk_slab_state(hk_slab_of(NEW_ADDRESS)) == hk_slab_none, "an address that is nobody's is not ours");
}

/* ---- Purge and reuse. */

static hk_slab_t *kept;

static void leave_idle(void) {
  hk_slab_t *slab = hk_superslab_acquire(2, 1, hk_from_bottom);
  uint64_t *memory = (uint64_t *)hk_slab_start(slab);
  memory[0] = memory[HK_SLAB_BYTES / sizeof(uint64_t)] = 99;
  hk_option.retain = 64 * HK_MIB;
  hk_slab_retire(slab, 2);
  hk_superslab_release(slab, 2);
}

/* With a slab in use, a purge takes the superslab's dirty slabs; without one it unmaps the superslab. */
static void set_up_purge(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  kept = hk_superslab_acquire(1, 1, hk_from_top);
  leave_idle();
}
/* The dirty memory is a large block's extent. */
static void set_up_extent(void) {
  set_up_big();
  *(unsigned *)big = 99;
  hk_option.retain = 64 * HK_MIB;
  CHECK(hk_large_free(big_slab, big), "setup: a free");
}
static void set_up_unmap(void) {
  checker_ignore(&hk_stat_process, sizeof(hk_stat_process));
  kept = NULL;
  leave_idle();
}

/* The next thread that takes a slab purges dirty memory lazily. */
static void set_up_lazy(void) {
  set_up_purge();
  hk_option.retain = 0;
  hk_option.purge = hk_purge_free;
}

static void purge_all(void) { (void)hk_purge_down_to(0); }

static void acquire_and_use(unsigned number, bool keep) {
  hk_slab_t *slab = hk_superslab_acquire(1, 1, hk_from_bottom);
  CHECK(slab != NULL, "there is memory");
  uint64_t *memory = (uint64_t *)hk_slab_start(slab);
  CHECK(!slab->is_zero || memory[0] == 0, "what is said to be zero is zero");
  memory[0] = number;
  hk_slab_set_state(slab, hk_slab_run);
  CHECK(memory[0] == number, "what is in use keeps its contents");
  if (keep) return;
  hk_slab_retire(slab, 1);
  hk_superslab_release(slab, 1);
}
static void use_and_release(void) { acquire_and_use(1, false); }
static void use_and_keep(void) { acquire_and_use(2, true); }
static void use_twice(void) {
  acquire_and_use(1, false);
  acquire_and_use(2, false);
}

static void expect_in_use(size_t slabs) {
  slabs += kept != NULL;
  CHECK(hk_superslab_usage().in_use_bytes == slabs * HK_SLAB_BYTES, "what is in use is what was not given back");
}
static void expect_none_used(void) { expect_in_use(0); }
static void expect_one_used(void) { expect_in_use(1); }
static void expect_one_used_and_lazy(void) {
  expect_one_used();
  hk_superslab_usage_t usage = hk_superslab_usage();
  CHECK(usage.lazy_bytes > 0, "some of what is free is the system's to take");
  CHECK(hk_purge_down_to(0) == usage.lazy_bytes + usage.dirty_bytes, "and goes when somebody asks");
  CHECK(hk_superslab_usage().lazy_bytes == 0, "all of it");
}

/* ---- A superslab that moves to another shard. */

static hk_superslab_t *moving;
static hk_slab_t *second_kept;

static void set_up_move(void) {
  set_up_purge();
  hk_shard_set_each(2);
  moving = kept->superslab;
  second_kept = hk_superslab_acquire(1, 1, hk_from_top); /* one of the two dirty ones */
}

static void move_to(unsigned shard) {
  hk_superslab_index_lock_two(0, 1);
  if (hk_superslab_index_shard(moving) != shard) hk_superslab_index_move_locked(moving, shard);
  hk_superslab_index_unlock(1);
  hk_superslab_index_unlock(0);
}
static void move_there(void) { move_to(1); }
static void move_there_and_back(void) {
  move_to(1);
  move_to(0);
}

static void release_one(hk_slab_t *slab) {
  hk_slab_retire(slab, 1);
  hk_superslab_release(slab, 1);
}
static void release_kept(void) { release_one(kept); }
static void release_second(void) { release_one(second_kept); }

static void expect_all_where_it_is(void) {
  hk_dirty_sums_t sums = {0};
  hk_dirty_add(&sums, hk_superslab_index_account(moving));
  CHECK(sums.in_use_bytes == hk_superslab_usage().in_use_bytes, "what is in use counts where the superslab is");
  CHECK(sums.dirty_bytes == hk_superslab_usage().dirty_bytes, "and so does what is free");
}
static void expect_both_released(void) {
  expect_all_where_it_is();
  CHECK(hk_superslab_usage().in_use_bytes == 0, "the slabs are given back");
  CHECK(hk_superslab_usage().dirty_bytes == 3 * HK_SLAB_BYTES, "and each counts once");
}

const scenario_t scenarios[] = {
    {.name = "move_and_two_release",
     .setup = set_up_move,
     .thread = {move_there_and_back, release_kept, release_second},
     .finish = expect_both_released},
    {.name = "move_and_purge",
     .setup = set_up_move,
     .thread = {move_there, purge_all},
     .finish = expect_all_where_it_is},
    {.name = "run_free_and_free",
     .setup = set_up_run,
     .thread = {free_run_left, free_run_right},
     .finish = expect_run_gone},
    {.name = "run_keep_and_free", .setup = set_up_run, .thread = {keep_run_left, free_run_right}},
    {.name = "large_free_and_free",
     .setup = set_up_big,
     .thread = {free_big_left, free_big_right},
     .finish = expect_big_gone},
    {.name = "large_free_and_alloc",
     .setup = set_up_big,
     .thread = {free_big_and_say, alloc_big_and_use},
     .finish = expect_big_one},
    {.name = "region_enter_and_enter",
     .setup = set_up_region,
     .thread = {enter_region_0, enter_region_1},
     .finish = expect_one_leaf},
    {.name = "region_three_enter",
     .setup = set_up_region,
     .thread = {enter_region_0, enter_region_1, enter_region_2},
     .finish = expect_one_leaf},
    {.name = "region_hand_over", .setup = set_up_region, .thread = {enter_and_hand_over, enter_region_1, look_up}},
    {.name = "region_look_up",
     .setup = set_up_region,
     .thread = {enter_region_0, enter_region_1, look_up_anything},
     .finish = expect_one_leaf},
    {.name = "purge_and_reuse", .setup = set_up_purge, .thread = {purge_all, use_twice}, .finish = expect_none_used},
    {.name = "purge_and_two_reuse",
     .setup = set_up_purge,
     .thread = {purge_all, use_and_release, use_and_keep},
     .finish = expect_one_used},
    {.name = "purge_and_purge",
     .setup = set_up_purge,
     .thread = {purge_all, purge_all, use_and_keep},
     .finish = expect_one_used},
    {.name = "lazy_purge_and_reuse",
     .setup = set_up_lazy,
     .thread = {use_and_release, use_and_keep},
     .finish = expect_one_used_and_lazy},
    {.name = "lazy_purge_and_trim",
     .setup = set_up_lazy,
     .thread = {purge_all, use_and_keep},
     .finish = expect_one_used},
    {.name = "unmap_and_reuse", .setup = set_up_unmap, .thread = {purge_all, use_twice}, .finish = expect_none_used},
    {.name = "unmap_and_two_reuse",
     .setup = set_up_unmap,
     .thread = {purge_all, use_and_release, use_and_keep},
     .finish = expect_one_used,
     .preemptions_in_short = 2},
    {.name = "extent_purge_and_reuse",
     .setup = set_up_extent,
     .thread = {purge_all, use_large_1},
     .finish = expect_no_large},
    {.name = "extent_two_reuse",
     .setup = set_up_extent,
     .thread = {use_large_1, use_large_2},
     .finish = expect_no_large},
    {.name = "extent_purge_and_two_reuse",
     .setup = set_up_extent,
     .thread = {purge_all, use_large_1, use_large_2},
     .finish = expect_no_large,
     .preemptions_in_short = 2},
    {.name = NULL},
};
