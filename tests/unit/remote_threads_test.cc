// heap/remote: threads that free each other's blocks at the same time.
#include <atomic>
#include <thread>
#include <vector>

#include "fresh_test.h"
#include "test_random.h"
#include "unit/held_blocks.h"
#include "unit/remote_driver.h"
#include "unit/rendezvous.h"

using namespace hk_test;

namespace {

constexpr unsigned kClasses[] = {2, 3, 33, 64, 66, 80, 90, 104};

unsigned AnyClass(TestRandom *random) { return kClasses[random->Below(sizeof kClasses / sizeof kClasses[0])]; }

constexpr size_t kBlocks = 60000;

// One owner hands out blocks, `thread_count` threads free them while it allocates and drains.
void PostWhileTheOwnerDrains(int thread_count) {
  std::atomic<int> failures{0};
  std::atomic<bool> done{false};
  std::vector<BlockQueue> queues(thread_count);
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
            hk_remote_free_now(hk_slab_of(blocks[i]), blocks[i]);
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
    hk_slab_t *active = owner->state[class_index].active.load();
    if (active != nullptr) CheckSpan(owner, active, 0);
    if (hk_class_is_mid(class_index)) CheckMidBin(owner, class_index);
  }
  hk_heap_flush(owner);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block was collected";
}

HK_FRESH_TEST(RemoteThreads, TwoPost) { PostWhileTheOwnerDrains(2); }
HK_FRESH_TEST(RemoteThreads, FourPost) { PostWhileTheOwnerDrains(4); }
HK_FRESH_TEST(RemoteThreads, EightPost) { PostWhileTheOwnerDrains(8); }

// Pushing and draining at their densest: each block sent alone, and the owner does nothing but drain.
HK_FRESH_TEST(RemoteThreads, TheSameListIsPushedToAndTakenAllTheTime) {
  constexpr int kThreads = 3, kRounds = 100;
  hk_heap_t *owner = hk_heap_take();
  for (int round = 0; round < kRounds; round++) {
    Blocks blocks;
    for (unsigned class_index : {40u, 66u, 80u}) {
      Blocks some = AllocMany(owner, class_index, 400);
      blocks.insert(blocks.end(), some.begin(), some.end());
    }
    std::atomic<int> finished{0};
    Rendezvous start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([&blocks, &finished, &start, t] {
        start.Wait();
        for (size_t i = t; i < blocks.size(); i += kThreads) hk_remote_free_now(hk_slab_of(blocks[i]), blocks[i]);
        finished++;
      });
    }
    while (finished < kThreads) hk_remote_drain(owner);
    for (std::thread &thread : threads) thread.join();
    hk_remote_drain(owner);
    ASSERT_EQ(StatOf(owner, hk_stat_remote_drain), (round + 1) * blocks.size());
    ASSERT_EQ(owner->damaged, nullptr);
  }
  hk_heap_flush(owner);
  EXPECT_EQ(InUseSlabs(), 0u);
}

// Every thread owns blocks and frees those of the others.
HK_FRESH_TEST(RemoteThreads, AllWithAll) {
  constexpr int kThreads = 4;
  constexpr size_t kEach = 15000;
  std::atomic<int> failures{0};
  std::atomic<int> allocating{kThreads};
  std::vector<BlockQueue> queues(kThreads);
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
          Free(heap, block);
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
    EXPECT_EQ(heap->damaged, nullptr);
    hk_heap_flush(heap);
    sent += StatOf(heap, hk_stat_remote_free);
    came += StatOf(heap, hk_stat_remote_drain);
  }
  EXPECT_EQ(sent, came);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block was collected";
}

// Threads come and go: each gets a heap as malloc does, frees what those before it left, leaves blocks for those after
// it, and ends as a thread does. Heaps are adopted, and drained while no thread has them.
HK_FRESH_TEST(RemoteThreads, ThreadsComeAndGo) {
  constexpr int kThreads = 4, kGenerations = 60;
  constexpr size_t kEach = 250;
  std::atomic<int> failures{0};
  BlockQueue queue;
  auto live = [&failures, &queue](uint64_t seed) {
    TestRandom random(seed);
    hk_thread_lease_t lease = hk_thread_enter();
    if (lease.heap == nullptr || lease.is_borrowed) failures++;
    for (size_t i = 0; i < kEach; i++) {
      hk_block_t *block = Alloc(lease.heap, AnyClass(&random));
      if (block == nullptr || !Hold(block)) failures++;
      if (block != nullptr) queue.Put(block);
      if (i % 50 != 49) continue;
      for (hk_block_t *other : queue.TakeAll()) {
        if (!LetGo(other)) failures++;
        if (random.OneIn(2)) {
          Free(lease.heap, other);
        } else if (Hold(other)) {
          queue.Put(other); /* for another thread */
        }
      }
    }
    hk_thread_leave(lease);
    hk_thread_on_exit();
  };
  for (int generation = 0; generation < kGenerations; generation++) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) threads.emplace_back(live, 1000u * generation + t);
    for (std::thread &thread : threads) thread.join();
  }
  EXPECT_EQ(failures, 0);
  hk_heap_t *mine = hk_heap_take();
  for (hk_block_t *block : queue.TakeAll()) {
    EXPECT_TRUE(LetGo(block));
    Free(mine, block);
  }
  hk_remote_flush(mine);
  hk_heap_give_back(mine);
  uint64_t sent = 0, came = 0;
  int heaps = 0;
  hk_heap_visit_idle([](hk_heap_t *heap) {
    hk_remote_drain(heap);
    EXPECT_EQ(heap->damaged, nullptr);
    hk_heap_flush(heap);
  });
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next, heaps++) {
    sent += StatOf(heap, hk_stat_remote_free);
    came += StatOf(heap, hk_stat_remote_drain);
    EXPECT_EQ(hk_load_relaxed(&heap->life), hk_heap_idle);
  }
  EXPECT_LE(heaps, kThreads + 1) << "they are adopted";
  EXPECT_EQ(sent, came);
  EXPECT_EQ(InUseSlabs(), 0u) << "every block was collected";
}

}  // namespace
