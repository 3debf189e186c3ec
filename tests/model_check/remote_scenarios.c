/* heap/remote.c: blocks that other threads free, on their way to the owner. */
#include "model_check/scenario_tools.h"

/* The program writes into a block before it frees it: until then the owner must not touch the block. */
static void use(hk_block_t *block) { block[1].next = block; }

static void send_batch(void) {
  use(blocks[0]);
  use(blocks[1]);
  hk_remote_free(other, span, blocks[0]);
  hk_remote_free(other, span, blocks[1]);
  hk_remote_flush(other);
}

static void send_singly(void) {
  use(blocks[2]);
  hk_remote_free_now(span, blocks[2]);
  use(blocks[3]);
  hk_remote_free_now(span, blocks[3]);
}

static void drain_twice(void) {
  for (unsigned i = 0; i < 2; i++) {
    if (hk_heap_has_incoming(owner)) hk_remote_drain(owner);
  }
}

static void expect_all(void) { expect_home(0xf); }

/* ---- The owner allocates after a drain, and uses the blocks at once. */

static unsigned handed_out;

static void drain_and_use(void) {
  hk_remote_drain(owner);
  for (hk_block_t *block; (block = pop_block(owner)) != NULL;) {
    use(block);
    for (unsigned i = 0; i < BLOCK_COUNT; i++) handed_out |= (unsigned)(blocks[i] == block) << i;
  }
}

static void expect_rest(void) { expect_home(0xfu & ~handed_out); }

/* ---- ABA: another thread has read a block as the head of `incoming`. Meanwhile the owner drains and allocates that
 * block, and it becomes the head again. */

static _Atomic(hk_block_t *) mailbox;
static unsigned expected_home;

static void send_and_send_again(void) {
  hk_remote_free_now(span, blocks[0]);
  hk_block_t *again = hk_load_acquire(&mailbox);
  if (again == NULL) return;
  use(again);
  hk_remote_free_now(span, again);
}

static void send_behind(void) {
  use(blocks[1]);
  hk_remote_free_now(span, blocks[1]);
}

static void drain_and_hand_out(void) {
  hk_remote_drain(owner);
  hk_block_t *block = pop_block(owner);
  if (block == blocks[0]) {
    use(block);
    expected_home &= ~1u;
    hk_store_release(&mailbox, block);
  }
  hk_remote_drain(owner);
  if (block != NULL && block != blocks[0]) (void)hk_free_list_push(hk_slab_of(block)->free_list, block);
}

static void set_up_mailbox(void) {
  set_up_heaps();
  expected_home = 3;
}

static void expect_mail(void) {
  hk_remote_drain(owner);
  CHECK(owner->damaged == NULL, "nothing is damaged");
  unsigned found = take_all_home();
  CHECK((found & 2) != 0, "the other block is at home");
  CHECK((found & 1) != 0 || expected_home == 2, "a block that was not handed out is at home");
  CHECK((found & ~3u) == 0, "no block comes home that nobody freed");
}

#if HK_SAFETY
/* ---- Misuse: two threads free one block at the same moment, and for each its own free is the first. */

static hk_heap_t *third;

static void set_up_misuse(void) {
  set_up_heaps();
  third = hk_heap_take();
  /* Both threads write the link, the seal and the hint behind them. */
  for (unsigned i = 0; i < 3; i++) checker_allow_races(blocks[i], sizeof(hk_block_t) + sizeof(hk_block_t *));
}

static void free_it_first(void) {
  hk_remote_free(other, span, blocks[1]);
  hk_remote_free(other, span, blocks[0]);
  hk_remote_flush(other);
}

static void free_it_last(void) {
  hk_remote_free(third, span, blocks[0]);
  hk_remote_free(third, span, blocks[2]);
  hk_remote_flush(third);
}

static void drain_once(void) { hk_remote_drain(owner); }

/* The block is in two chains with one link. One chain may lose the blocks behind it, which stays unnoticed if the owner
 * gets the block itself once. Every drain has to end, too. */
static void expect_no_harm(void) {
  hk_remote_drain(owner);
  unsigned found = take_all_home();
  bool is_noticed = owner->damaged != NULL || owner->bin[BLOCK_CLASS].free != HK_LIST_END;
  CHECK(is_noticed || (found & 1) != 0, "it is noticed, or the block came home once");
  CHECK((found & 8) == 0, "no block comes home that nobody freed");
}

/* The same with an owner that allocates meanwhile: it gets each block that was freed once at most once. */
static void expect_others_once(void) {
  hk_remote_drain(owner);
  CHECK((take_all_home() & handed_out & 6) == 0, "no other block is handed out twice");
}

/* The owner may get the block itself twice: its second free comes when it is in use again. The owner does not write
 * into the blocks, since such a program's writes race. */
static void drain_and_take(void) {
  hk_remote_drain(owner);
  for (hk_block_t *block; (block = pop_block(owner)) != NULL;) {
    for (unsigned i = 0; i < BLOCK_COUNT; i++) handed_out |= (unsigned)(blocks[i] == block) << i;
  }
}
#endif

const scenario_t scenarios[] = {
    {.name = "remote_batch_and_single",
     .setup = set_up_heaps,
     .thread = {send_batch, send_singly, drain_twice},
     .finish = expect_all,
     .preemptions_in_short = 2},
    {.name = "remote_use_at_once",
     .setup = set_up_heaps,
     .thread = {send_batch, send_singly, drain_and_use},
     .finish = expect_rest},
    {.name = "remote_aba",
     .setup = set_up_mailbox,
     .thread = {send_and_send_again, send_behind, drain_and_hand_out},
     .finish = expect_mail},
#if HK_SAFETY
    {.name = "remote_double_free_and_use",
     .setup = set_up_misuse,
     .thread = {free_it_first, free_it_last, drain_and_take},
     .finish = expect_others_once,
     .preemptions_in_short = 2},
    {.name = "remote_double_free",
     .setup = set_up_misuse,
     .thread = {free_it_first, free_it_last, drain_once},
     .finish = expect_no_harm,
     .preemptions_in_short = 2},
#endif
    {.name = NULL},
};
