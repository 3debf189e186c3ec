// heap/remote: damaged blocks on their way to the owner.
#include <cstring>
#include <set>

#include "fresh_test.h"
#include "unit/remote_driver.h"

using namespace hk_test;

namespace {

#if HK_SAFETY

// All free blocks that the heap has collected: in its bins and in its spans' own lists.
std::multiset<hk_block_t *> AtHome(hk_heap_t *heap) {
  std::multiset<hk_block_t *> blocks;
  auto add = [&blocks](hk_block_t *list) {
    for (size_t steps = 0; list != HK_LIST_END && hk_block_is_intact(list) && steps < 100000;
         list = list->next, steps++) {
      blocks.insert(list);
    }
  };
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    add(heap->bin[i].free);
    const hk_list_t *partial = &heap->state[i].partial;
    if (!hk_list_is_linked(partial)) continue;
    for (hk_list_t *node = partial->next; node != partial; node = node->next) {
      add(HK_CONTAINER_OF(node, hk_slab_t, link)->own.free);
    }
  }
  return blocks;
}

// At each place of a chain of several batches: blocks sent before the damaged one are lost, blocks sent after it are
// not.
HK_FRESH_TEST(RemoteDamage, TheDrainTellsOfABlockAndLosesWhatWasSentBefore) {
  for (unsigned class_index : {20u, 66u, 104u}) {
    constexpr size_t kCount = 12;
    for (size_t place = 0; place < kCount; place++) {
      for (int how = 0; how < 4; how++) {
        SCOPED_TRACE(place);
        Heaps heaps;
        Blocks blocks = AllocMany(heaps.owner, class_index, kCount + 3);
        while (Pop(heaps.owner, class_index) != nullptr) {
        }
        for (size_t i = 0; i < kCount; i++) {
          RemoteFree(heaps.other, blocks[i]);
          if (i % 4 == 3) hk_remote_flush(heaps.other);
        }
        hk_block_t *damaged = blocks[kCount - 1 - place];
        if (how == 0) memset(static_cast<void *>(damaged), 'x', 16);
        if (how == 1) damaged->seal ^= 1;
        if (how == 2) damaged->next = HK_LIST_END;
        if (how == 3) memset(static_cast<void *>(damaged), 0, 16);
        hk_remote_drain(heaps.owner);
        EXPECT_EQ(heaps.owner->damaged, damaged);
        EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), place);
        EXPECT_FALSE(hk_heap_has_incoming(heaps.owner));
        std::multiset<hk_block_t *> home = AtHome(heaps.owner);
        for (size_t i = 0; i < kCount; i++) ASSERT_EQ(home.count(blocks[i]), i > kCount - 1 - place ? 1u : 0u) << i;
        if (hk_class_is_mid(class_index)) CheckMidBin(heaps.owner, class_index);

        heaps.owner->damaged = nullptr; /* life goes on */
        for (size_t i = kCount; i < blocks.size(); i++) RemoteFree(heaps.other, blocks[i]);
        hk_remote_flush(heaps.other);
        Drain(heaps.owner);
        home = AtHome(heaps.owner);
        for (size_t i = kCount; i < blocks.size(); i++) {
          bool is_released = hk_slab_state(hk_slab_of(blocks[i])) == hk_slab_free; /* all blocks of its span are free */
          ASSERT_EQ(home.count(blocks[i]), is_released ? 0u : 1u);
        }
      }
    }
  }
}

// The last block of a batch gets a new link as the batch is sent.
HK_FRESH_TEST(RemoteDamage, TheDrainTellsOfABlockThatWasDamagedBeforeItWasSent) {
  for (unsigned class_index : {20u, 66u, 104u}) {
    for (size_t place = 0; place < 3; place++) {
      for (size_t word = 0; word < 2; word++) {
        SCOPED_TRACE(place);
        Heaps heaps;
        Blocks blocks = AllocMany(heaps.owner, class_index, 4);
        RemoteFree(heaps.other, blocks[3]);
        hk_remote_flush(heaps.other);
        for (size_t i = 0; i < 3; i++) RemoteFree(heaps.other, blocks[i]);
        reinterpret_cast<uintptr_t *>(blocks[place])[word] = 0x4141414141414141;
        hk_remote_flush(heaps.other);
        hk_remote_drain(heaps.owner);
        EXPECT_EQ(heaps.owner->damaged, blocks[place]);
        EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 2 - place);
        heaps.owner->damaged = nullptr;
      }
    }
  }
}

HK_FRESH_TEST(RemoteDamage, TheLostCountAsInUse) {
  Heaps heaps;
  Blocks blocks = AllocMany(heaps.owner, 20, CapacityOf(20));
  hk_block_t *active = Alloc(heaps.owner, 20);
  hk_slab_t *span = SpanOf(blocks[0]);
  RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 20)); /* the chain leads from [19] to [0] */
  hk_remote_flush(heaps.other);
  RemoteFree(heaps.other, active);
  hk_remote_flush(heaps.other);
  memset(static_cast<void *>(blocks[7]), 'x', 16);
  hk_remote_drain(heaps.owner);
  EXPECT_EQ(heaps.owner->damaged, blocks[7]);
  EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 12u + 1u);
  CheckSpan(heaps.owner, span, CapacityOf(20) - 12);
  CheckSpan(heaps.owner, SpanOf(active), 0);
}

// Its owner freed it too while it was under way.
HK_FRESH_TEST(RemoteDamage, ABlockThatIsHomeAlreadyIsNoticed) {
  for (unsigned class_index : {20u, 80u}) {
    for (size_t twice = 0; twice < 5; twice++) {
      SCOPED_TRACE(twice);
      Heaps heaps;
      Blocks blocks = AllocMany(heaps.owner, class_index, 6);
      RemoteFreeAll(heaps.other, Blocks(blocks.begin(), blocks.begin() + 5));
      hk_remote_flush(heaps.other);
      (void)FreeOwn(heaps.owner, blocks[twice]);
      hk_remote_drain(heaps.owner);
      EXPECT_EQ(heaps.owner->damaged, blocks[twice]);
      EXPECT_EQ(StatOf(heaps.owner, hk_stat_remote_drain), 4 - twice);
      std::multiset<hk_block_t *> home = AtHome(heaps.owner);
      for (hk_block_t *block : blocks) EXPECT_LE(home.count(block), 1u);
    }
  }
}

// The same, and it has been given out again since.
HK_FRESH_TEST(RemoteDamage, ABlockThatIsInUseAgainIsNoticed) {
  for (unsigned class_index : {20u, 80u}) {
    Heaps heaps;
    Blocks blocks = AllocMany(heaps.owner, class_index, 4);
    RemoteFreeAll(heaps.other, blocks);
    hk_remote_flush(heaps.other);
    (void)FreeOwn(heaps.owner, blocks[2]);
    ASSERT_EQ(Pop(heaps.owner, class_index), blocks[2]);
    hk_remote_drain(heaps.owner);
    EXPECT_EQ(heaps.owner->damaged, blocks[2]);
    EXPECT_EQ(AtHome(heaps.owner).count(blocks[2]), 0u) << "no other request gets it";
  }
}

// Two threads free one block at the same moment, each finding that it looks in use: both batches hold it, at any place.
// Whatever the batches' order makes of their links, a ring among them too, the drain ends, and no block is collected
// twice.
HK_FRESH_TEST(RemoteDamage, ABlockInTwoBatchesIsTakenBackOnce) {
  constexpr size_t kEach = 4;
  int rings = 0;
  for (unsigned class_index : {20u, 70u, 80u}) {
    for (size_t first_place = 0; first_place < kEach; first_place++) {
      for (size_t second_place = 0; second_place < kEach; second_place++) {
        for (int order = 0; order < 4; order++) {
          Heaps heaps;
          hk_heap_t *third = hk_heap_take();
          Blocks blocks = AllocMany(heaps.owner, class_index, 2 * kEach);
          hk_block_t *both = blocks[0];
          size_t next = 1;
          for (size_t i = 0; i < kEach; i++) RemoteFree(heaps.other, i == first_place ? both : blocks[next++]);
          if (order == 2) hk_remote_flush(heaps.other); /* the first was sent before the second came to it */
          for (size_t i = 0; i < kEach; i++) RemoteFree(third, i == second_place ? both : blocks[next++]);
          hk_remote_flush(order == 1 ? third : heaps.other);
          if (order != 3) hk_remote_flush(order == 1 ? heaps.other : third);
          bool is_ring = IncomingLength(heaps.owner) >= 1000;
          rings += is_ring;
          hk_remote_drain(heaps.owner);
          EXPECT_LE(StatOf(heaps.owner, hk_stat_remote_drain), 2 * kEach - 1);
          EXPECT_FALSE(hk_heap_has_incoming(heaps.owner));
          if (is_ring) EXPECT_EQ(heaps.owner->damaged, both);
          std::multiset<hk_block_t *> home = AtHome(heaps.owner);
          for (hk_block_t *block : blocks) ASSERT_LE(home.count(block), 1u);
          ASSERT_LE(home.size(), CarvedOf(SpanOf(both)));
        }
      }
    }
  }
  EXPECT_GT(rings, 0) << "else the test has not seen one";
}

#endif

}  // namespace
