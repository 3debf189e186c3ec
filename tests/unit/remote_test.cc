// heap/remote: blocks on their way home: batches, the pending list, what the owner takes back, and threads at it
// together.
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"
#include "unit/rendezvous.h"

namespace {

using hakmem_test::TestRandom;
using hk_test::Alloc;
using hk_test::CapacityOf;
using hk_test::CheckSpan;
using hk_test::FreeOwn;
using hk_test::InUseSlabs;
using hk_test::IsActive;
using hk_test::IsPartial;
using hk_test::ListLength;
using hk_test::SpanOf;
using hk_test::StatOf;
using hk_test::WorthOf;

// The owner and one that frees the owner's blocks.
struct Heaps {
  hk_heap_t *owner = hk_heap_take();
  hk_heap_t *other = hk_heap_take();
};

std::vector<hk_block_t *> AllocMany(hk_heap_t *heap, unsigned class_index, size_t count) {
  std::vector<hk_block_t *> blocks;
  while (blocks.size() < count) blocks.push_back(Alloc(heap, class_index));
  return blocks;
}

void RemoteFree(hk_heap_t *heap, hk_block_t *block) { hk_remote_free(heap, SpanOf(block), block); }

// Blocks that were posted to the span and not taken back yet.
unsigned PostedTo(hk_slab_t *span) {
  hk_block_t *first = hk_load_relaxed(&span->shared.remote);
  return first == nullptr ? 0 : ListLength(first);
}

std::vector<hk_slab_t *> PendingOf(hk_heap_t *heap) {
  std::vector<hk_slab_t *> spans;
  for (hk_slab_t *span = hk_load_relaxed(&heap->shared.pending); span != nullptr; span = span->shared.pending_next) {
    spans.push_back(span);
    if (spans.size() > 1000) break; /* a ring */
  }
  return spans;
}

// ---- Batches.

// How many blocks of a class go home together.
unsigned BatchOf(unsigned class_index) {
  size_t by_bytes = (16 * HK_KIB + hk_class_bytes(class_index) - 1) / hk_class_bytes(class_index);
  return by_bytes < 32 ? static_cast<unsigned>(by_bytes) : 32;
}

HK_FRESH_TEST(Remote, AFullBatchGoesHomeByItself) {
  Heaps heaps;
  for (unsigned class_index : {1u, 32u, 33u, 64u, 80u, 88u, 96u, 97u, 104u}) {
    SCOPED_TRACE(class_index);
    unsigned batch = BatchOf(class_index);
    ASSERT_LE(batch, CapacityOf(class_index));
    uint64_t batches = StatOf(heaps.other, hk_stat_remote_batch), frees = StatOf(heaps.other, hk_stat_remote_free);
    std::vector<hk_block_t *> blocks;
    while (blocks.size() < batch) { /* all of one span */
      hk_block_t *block = Alloc(heaps.owner, class_index);
      if (!blocks.empty() && SpanOf(block) != SpanOf(blocks[0])) blocks.clear();
      blocks.push_back(block);
    }
    for (unsigned i = 0; i < batch; i++) {
      EXPECT_EQ(PostedTo(SpanOf(blocks[0])), 0u) << i;
      EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), batches);
      RemoteFree(heaps.other, blocks[i]);
    }
    EXPECT_EQ(PostedTo(SpanOf(blocks[0])), batch);
    EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), batches + 1);
    EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_free), frees + batch);
    hk_remote_drain(heaps.owner);
    EXPECT_EQ(PostedTo(SpanOf(blocks[0])), 0u);
  }
}

HK_FRESH_TEST(Remote, FlushSendsWhatWaits) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 4, 5);
  for (hk_block_t *block : blocks) RemoteFree(heaps.other, block);
  EXPECT_FALSE(hk_remote_is_pending(heaps.owner));
  hk_remote_flush(heaps.other);
  EXPECT_EQ(PostedTo(SpanOf(blocks[0])), 5u);
  EXPECT_TRUE(hk_remote_is_pending(heaps.owner));
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u) << "nothing waits any more";
}

// Two spans whose batches would lie in the same place of the outbox.
HK_FRESH_TEST(Remote, AnotherSpanInTheSamePlaceSendsTheBatch) {
  Heaps heaps;
  std::vector<hk_block_t *> one_a_span;
  for (unsigned i = 0; i <= HK_OUTBOX_SLOTS; i++) {
    one_a_span.push_back(AllocMany(heaps.owner, 64, CapacityOf(64)).back());
  }
  for (unsigned i = 0; i < HK_OUTBOX_SLOTS; i++) RemoteFree(heaps.other, one_a_span[i]);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 0u) << "neighbours have places of their own";
  ptrdiff_t distance = SpanOf(one_a_span[HK_OUTBOX_SLOTS]) - SpanOf(one_a_span[0]);
  ASSERT_EQ(distance % static_cast<ptrdiff_t>(HK_OUTBOX_SLOTS), 0) << "spans are taken side by side";
  RemoteFree(heaps.other, one_a_span[HK_OUTBOX_SLOTS]);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 1u);
  EXPECT_EQ(PostedTo(SpanOf(one_a_span[0])), 1u);
  EXPECT_EQ(PostedTo(SpanOf(one_a_span[HK_OUTBOX_SLOTS])), 0u);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), HK_OUTBOX_SLOTS + 1);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_free), HK_OUTBOX_SLOTS + 1);
  EXPECT_EQ(PendingOf(heaps.owner).size(), HK_OUTBOX_SLOTS + 1);
}

HK_FRESH_TEST(Remote, BlocksUnderWayLookFree) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 4, 3);
  for (hk_block_t *block : blocks) {
    EXPECT_FALSE(hk_block_looks_free(block));
    RemoteFree(heaps.other, block);
    EXPECT_TRUE(hk_block_looks_free(block)) << "in the batch";
  }
  hk_remote_flush(heaps.other);
  for (hk_block_t *block : blocks) EXPECT_TRUE(hk_block_looks_free(block)) << "posted";
  hk_remote_drain(heaps.owner);
  for (hk_block_t *block : blocks) EXPECT_TRUE(hk_block_looks_free(block)) << "at home";
}

// ---- Pending.

HK_FRESH_TEST(Remote, ASpanIsQueuedOnceHoweverManyBatchesItGets) {
  Heaps heaps;
  hk_heap_t *third = hk_heap_take();
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 4, 200);
  hk_slab_t *span = SpanOf(blocks[0]);
  ASSERT_EQ(SpanOf(blocks[199]), span);
  for (size_t i = 0; i < 200; i++) RemoteFree(i % 2 ? heaps.other : third, blocks[i]);
  hk_remote_flush(heaps.other);
  hk_remote_flush(third);
  EXPECT_EQ(PendingOf(heaps.owner), std::vector<hk_slab_t *>{span});
  EXPECT_EQ(PostedTo(span), 200u);
  hk_remote_drain(heaps.owner);
  EXPECT_FALSE(hk_remote_is_pending(heaps.owner));
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 200u);

  hk_block_t *again = Alloc(heaps.owner, 4);
  RemoteFree(third, again);
  hk_remote_flush(third);
  EXPECT_EQ(PendingOf(heaps.owner), std::vector<hk_slab_t *>{span}) << "after a drain it is queued anew";
}

HK_FRESH_TEST(Remote, EachOwnerGetsItsOwn) {
  hk_heap_t *owners[3] = {hk_heap_take(), hk_heap_take(), hk_heap_take()};
  hk_heap_t *other = hk_heap_take();
  for (int i = 0; i < 3; i++) {
    for (hk_block_t *block : AllocMany(owners[i], 4, 10 + i)) RemoteFree(other, block);
  }
  hk_remote_flush(other);
  for (uint64_t i = 0; i < 3; i++) {
    EXPECT_EQ(PendingOf(owners[i]).size(), 1u);
    hk_remote_drain(owners[i]);
    EXPECT_EQ(StatOf(owners[i], hk_stat_remote_drain), 10 + i);
    CheckSpan(owners[i], owners[i]->state[4].active, 0);
  }
}

HK_FRESH_TEST(Remote, ADrainOfNothing) {
  Heaps heaps;
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 0u);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(StatOf(heaps.other, hk_stat_remote_batch), 0u);
}

// ---- What comes home counts.

HK_FRESH_TEST(Remote, BlocksComeHomeToTheActiveSpan) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 20, 40);
  hk_slab_t *span = SpanOf(blocks[0]);
  for (hk_block_t *block : blocks) RemoteFree(heaps.other, block);
  CheckSpan(heaps.owner, span, 40);
  hk_remote_flush(heaps.other);
  CheckSpan(heaps.owner, span, 40);
  hk_remote_drain(heaps.owner);
  EXPECT_TRUE(IsActive(heaps.owner, span));
  CheckSpan(heaps.owner, span, 0);
  for (hk_block_t *block : AllocMany(heaps.owner, 20, 40)) EXPECT_EQ(SpanOf(block), span);
  hk_span_trim(heaps.owner);
  EXPECT_EQ(InUseSlabs(), 1u);
}

// Each class: a full span whose blocks all go home by way of another thread, with own frees between.
HK_FRESH_TEST(Remote, ASpanIsReleasedWhenItsLastBlockIsHome) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    SCOPED_TRACE(class_index);
    unsigned capacity = CapacityOf(class_index);
    std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, class_index, capacity);
    hk_block_t *next = Alloc(heaps.owner, class_index); /* makes another span the active one */
    hk_slab_t *span = SpanOf(blocks[0]);
    unsigned live = capacity;
    while (live > 1) {
      unsigned count = 1 + (live * 7 + class_index) % 23;
      if (count > live - 1) count = live - 1;
      for (unsigned i = 0; i < count; i++) {
        live--;
        if (i % 5 == 0) {
          (void)FreeOwn(heaps.owner, blocks[live]);
        } else {
          RemoteFree(heaps.other, blocks[live]);
        }
      }
      hk_remote_flush(heaps.other);
      hk_remote_drain(heaps.owner);
      if (live % 16 == 0 || live < 40) CheckSpan(heaps.owner, span, live);
      ASSERT_EQ(IsPartial(heaps.owner, span), capacity - live >= WorthOf(class_index));
    }
    RemoteFree(heaps.other, blocks[0]);
    ASSERT_EQ(hk_slab_state(span), hk_slab_small) << "in a batch it counts as in use";
    hk_remote_flush(heaps.other);
    ASSERT_EQ(hk_slab_state(span), hk_slab_small) << "posted too";
    hk_remote_drain(heaps.owner);
    ASSERT_EQ(hk_slab_state(span), hk_slab_free);
    (void)FreeOwn(heaps.owner, next);
    hk_span_trim(heaps.owner);
    ASSERT_EQ(InUseSlabs(), 0u);
  }
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), StatOf(heaps.other, hk_stat_remote_free));
}

HK_FRESH_TEST(Remote, OneDrainServesSpansInEveryState) {
  hk_option.spare_slabs = 0;
  Heaps heaps;
  unsigned capacity = CapacityOf(64);
  std::vector<std::vector<hk_block_t *>> spans;
  for (int i = 0; i < 4; i++) spans.push_back(AllocMany(heaps.owner, 64, capacity));
  hk_block_t *active = Alloc(heaps.owner, 64);
  for (hk_block_t *block : spans[0]) RemoteFree(heaps.other, block);                /* full to empty */
  for (unsigned i = 0; i < capacity - 1; i++) RemoteFree(heaps.other, spans[1][i]); /* full to partial */
  RemoteFree(heaps.other, spans[2][0]);                                             /* full, and stays full */
  for (unsigned i = 0; i < WorthOf(64); i++) (void)FreeOwn(heaps.owner, spans[3][i]);
  for (unsigned i = WorthOf(64); i < capacity; i++) RemoteFree(heaps.other, spans[3][i]); /* partial to empty */
  RemoteFree(heaps.other, active);
  hk_remote_flush(heaps.other);
  EXPECT_EQ(PendingOf(heaps.owner).size(), 5u);
  hk_remote_drain(heaps.owner);

  EXPECT_EQ(hk_slab_state(SpanOf(spans[0][0])), hk_slab_free);
  CheckSpan(heaps.owner, SpanOf(spans[1][0]), 1);
  CheckSpan(heaps.owner, SpanOf(spans[2][0]), capacity - 1);
  EXPECT_EQ(hk_slab_state(SpanOf(spans[3][0])), hk_slab_free);
  CheckSpan(heaps.owner, SpanOf(active), 0);
  EXPECT_EQ(InUseSlabs(), 3u);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 3 * capacity + 1 - WorthOf(64));
}

HK_FRESH_TEST(Remote, WithoutAHeapEachBlockGoesByItself) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 20, 3);
  hk_slab_t *span = SpanOf(blocks[0]);
  for (unsigned i = 0; i < 3; i++) {
    hk_remote_free_now(span, blocks[i]);
    EXPECT_EQ(PostedTo(span), i + 1);
  }
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_free]), 3u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_batch]), 3u);
  EXPECT_EQ(PendingOf(heaps.owner), std::vector<hk_slab_t *>{span});
  hk_remote_drain(heaps.owner);
  CheckSpan(heaps.owner, span, 0);
}

// ---- Damage.

#if HK_SAFETY

HK_FRESH_TEST(Remote, ADamagedBlockIsToldOfAndTheRestOfItsBatchIsLost) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 20, CapacityOf(20));
  hk_block_t *active = Alloc(heaps.owner, 20);
  hk_slab_t *span = SpanOf(blocks[0]);
  for (unsigned i = 0; i < 20; i++) RemoteFree(heaps.other, blocks[i]); /* the chain leads from [19] to [0] */
  RemoteFree(heaps.other, active);
  hk_remote_flush(heaps.other);
  memset(static_cast<void *>(blocks[7]), 'x', 16);
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(heaps.owner->damaged, blocks[7]);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 12u + 1u) << "those before it, and the other span's";
  CheckSpan(heaps.owner, span, CapacityOf(20) - 12);
  CheckSpan(heaps.owner, SpanOf(active), 0);
}

HK_FRESH_TEST(Remote, ADamagedFirstBlockLosesTheBatchOnly) {
  Heaps heaps;
  std::vector<hk_block_t *> blocks = AllocMany(heaps.owner, 20, 12);
  hk_slab_t *span = SpanOf(blocks[0]);
  for (unsigned i = 0; i < 4; i++) RemoteFree(heaps.other, blocks[i]);
  hk_remote_flush(heaps.other);
  blocks[3]->seal ^= 1;
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(heaps.owner->damaged, blocks[3]);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 0u);
  CheckSpan(heaps.owner, span, 12);

  heaps.owner->damaged = nullptr;
  for (unsigned i = 4; i < 12; i++) RemoteFree(heaps.other, blocks[i]);
  hk_remote_flush(heaps.other);
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(heaps.owner->damaged, nullptr);
  CheckSpan(heaps.owner, span, 4);
}

#endif

// ---- Threads.

// Blocks on their way from one thread to another.
class Queue {
 public:
  void Put(hk_block_t *block) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_.push_back(block);
  }
  std::vector<hk_block_t *> TakeAll() {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<hk_block_t *> taken;
    taken.swap(blocks_);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<hk_block_t *> blocks_;
};

constexpr uint64_t kHeld = 0x1de41de41de41de4;
constexpr unsigned kClasses[] = {2, 3, 33, 64, 90, 104};

unsigned AnyClass(TestRandom *random) { return kClasses[random->Below(sizeof kClasses / sizeof kClasses[0])]; }

uint64_t *MarkOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

// A block that nobody else has: false says that somebody has.
bool Hold(hk_block_t *block) {
  if (*MarkOf(block) == kHeld) return false;
  *MarkOf(block) = kHeld;
  return true;
}
bool LetGo(hk_block_t *block) {
  if (*MarkOf(block) != kHeld) return false;
  *MarkOf(block) = 0;
  return true;
}

constexpr size_t kBlocks = 60000;

// One owner hands out blocks, `thread_count` threads free them while it allocates and drains.
void PostWhileTheOwnerDrains(int thread_count) {
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::vector<Queue> queues(thread_count);
  std::vector<hk_heap_t *> heaps;
  for (int t = 0; t < thread_count; t++) heaps.push_back(hk_heap_take());
  hk_heap_t *owner = hk_heap_take();

  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; t++) {
    threads.emplace_back([&failures, &done, &queues, &heaps, t] {
      for (bool last_round = false; !last_round;) {
        last_round = done;
        std::vector<hk_block_t *> blocks = queues[t].TakeAll();
        for (size_t i = 0; i < blocks.size(); i++) {
          if (!LetGo(blocks[i])) failures++;
          if (i % 64 == 63) {
            hk_remote_free_now(SpanOf(blocks[i]), blocks[i]);
          } else {
            RemoteFree(heaps[t], blocks[i]);
          }
        }
        if (blocks.empty()) std::this_thread::yield();
        hk_remote_flush(heaps[t]);
      }
    });
  }

  TestRandom random(thread_count);
  for (size_t i = 0; i < kBlocks; i++) {
    hk_block_t *block = Alloc(owner, AnyClass(&random));
    if (block == nullptr || !Hold(block)) failures++;
    if (block == nullptr) break;
    queues[random.Below(thread_count)].Put(block);
    if (i % 256 == 0) hk_remote_drain(owner);
    if (i % 4096 == 0) std::this_thread::yield();
  }
  done = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);

  hk_remote_drain(owner);
  EXPECT_EQ(owner->damaged, nullptr);
  EXPECT_EQ(StatOf(owner, hk_stat_remote_drain), kBlocks) << "nothing lost, nothing twice";
  uint64_t freed = hk_load_relaxed(&hk_stat_process.value[hk_stat_remote_free]);
  for (hk_heap_t *heap : heaps) freed += StatOf(heap, hk_stat_remote_free);
  EXPECT_EQ(freed, kBlocks);
  for (unsigned class_index : kClasses) {
    if (owner->state[class_index].active != nullptr) CheckSpan(owner, owner->state[class_index].active, 0);
  }
  hk_span_trim(owner);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block came home";
}

HK_FRESH_TEST(RemoteThreads, TwoPost) { PostWhileTheOwnerDrains(2); }
HK_FRESH_TEST(RemoteThreads, FourPost) { PostWhileTheOwnerDrains(4); }
HK_FRESH_TEST(RemoteThreads, EightPost) { PostWhileTheOwnerDrains(8); }

// Posting and draining at their densest: blocks of few spans, each sent alone, and the owner does nothing but drain.
HK_FRESH_TEST(RemoteThreads, TheSameSpansAreQueuedAndTakenAllTheTime) {
  constexpr int kThreads = 3, kRounds = 100;
  hk_heap_t *owner = hk_heap_take();
  for (int round = 0; round < kRounds; round++) {
    std::vector<hk_block_t *> blocks = AllocMany(owner, 40, 1200);
    std::atomic<int> finished{0};
    hk_test::Rendezvous start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&blocks, &finished, &start, t] {
        start.Wait();
        for (size_t i = t; i < blocks.size(); i += kThreads) hk_remote_free_now(SpanOf(blocks[i]), blocks[i]);
        finished++;
      });
    }
    while (finished < kThreads) hk_remote_drain(owner);
    for (std::thread &thread : threads) thread.join();
    hk_remote_drain(owner);
    ASSERT_EQ(StatOf(owner, hk_stat_remote_drain), (round + 1) * blocks.size());
  }
  hk_span_trim(owner);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// Everybody owns blocks and frees those of the others.
HK_FRESH_TEST(RemoteThreads, AllWithAll) {
  constexpr int kThreads = 4;
  constexpr size_t kEach = 15000;
  std::atomic<int> failures{0};
  std::atomic<int> allocating{kThreads};
  std::vector<Queue> queues(kThreads);
  std::vector<hk_heap_t *> heaps;
  for (int t = 0; t < kThreads; t++) heaps.push_back(hk_heap_take());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures, &allocating, &queues, &heaps, t] {
      hk_heap_t *heap = heaps[t];
      TestRandom random(200 + t);
      auto free_all = [&] {
        for (hk_block_t *block : queues[t].TakeAll()) {
          if (!LetGo(block)) failures++;
          hk_test::Free(heap, block);
        }
      };
      for (size_t i = 0; i < kEach; i++) {
        hk_block_t *block = Alloc(heap, AnyClass(&random));
        if (block == nullptr || !Hold(block)) failures++;
        if (block == nullptr) break;
        queues[random.Below(kThreads)].Put(block);
        if (i % 100 == 0) free_all();
      }
      allocating--;
      while (allocating > 0) {
        free_all();
        std::this_thread::yield();
      }
      free_all();
      hk_remote_flush(heap);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  uint64_t sent = 0, came = 0;
  for (hk_heap_t *heap : heaps) {
    hk_remote_drain(heap);
    hk_span_trim(heap);
    sent += StatOf(heap, hk_stat_remote_free);
    came += StatOf(heap, hk_stat_remote_drain);
  }
  EXPECT_EQ(sent, came);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block came home";
}

}  // namespace
