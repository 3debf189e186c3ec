// base/walk, and in debug builds the walks of space and policy: each equation is broken by hand, and the next slow path
// ends the process with the sentence that does not hold.
#include <vector>

#include "base/walk.h"
#include "fresh_test.h"
#include "unit/superslab_driver.h"

extern "C" {
#include "policy/level.h"
#include "policy/slack.h"
}

using namespace hk_test;

namespace {

TEST(Walk, ASmallStructureIsWalkedEachTime) {
  hk_walk_t walk = {};
  for (int i = 0; i < 5; i++) {
    EXPECT_TRUE(hk_walk_is_due(&walk));
    hk_walk_end(&walk, HK_WALK_ALLOWANCE);
  }
}

TEST(Walk, ALargeStructureIsWalkedWhenItsStepsAreEarned) {
  hk_walk_t walk = {};
  EXPECT_TRUE(hk_walk_is_due(&walk));
  hk_walk_end(&walk, 3 * HK_WALK_ALLOWANCE);
  for (int i = 0; i < 4; i++) {
    EXPECT_FALSE(hk_walk_is_due(&walk));
    EXPECT_FALSE(hk_walk_is_due(&walk));
    EXPECT_TRUE(hk_walk_is_due(&walk));
    hk_walk_end(&walk, 3 * HK_WALK_ALLOWANCE);
  }
}

#if HK_DEBUG

// ---- Superslabs. Two of them: the first is nearly full, the second has slabs in use, idle and never used.

struct TwoSuperslabs {
  std::vector<hk_slab_t *> taken;
  hk_superslab_t *first, *second;
  hk_slab_t *last;  // a slab of the first, which the slow path gives back

  TwoSuperslabs() {
    RetainEverything();
    for (unsigned i = 0; i < kAll + 3; i++) taken.push_back(Acquire(1));
    first = taken[0]->superslab;
    second = taken[kAll]->superslab;
    EXPECT_NE(first, second);
    Touch(taken[kAll + 1], 1);
    Release(taken[kAll + 1]);
    Release(taken[0]);
    last = taken[1];
  }

  hk_list_t *BucketOf(const hk_superslab_t *superslab) const {
    return &hk_superslab_index[superslab->shard].bucket[superslab->longest_row - 1];
  }
};

// Breaks something of `at`, and expects that the release of a slab of the first superslab notices it.
#define EXPECT_RELEASE_NOTICES(breakage, sentence) \
  EXPECT_DEATH(                                    \
      {                                            \
        breakage;                                  \
        Release(at.last);                          \
      },                                           \
      sentence)

HK_FRESH_TEST(SuperslabInvariantDeathTest, MasksAndDescriptors) {
  TwoSuperslabs at;
  hk_superslab_t *first = at.first, *second = at.second;
  EXPECT_RELEASE_NOTICES(second->in_use_mask |= 1u << 20, "a slab is free or in use");
  EXPECT_RELEASE_NOTICES(first->lazy_mask |= 1u << 5, "lazy slabs are free and used");
  EXPECT_RELEASE_NOTICES(second->longest_row--, "a superslab has the length of its longest free row");
  EXPECT_RELEASE_NOTICES(hk_list_remove(&second->link), "a superslab with a free slab is in a bucket");
  EXPECT_RELEASE_NOTICES(second->dirty_since = 0, "in the list by age that its masks call for");
  EXPECT_RELEASE_NOTICES(second->slabs[9].superslab = nullptr, "each slab of a superslab names it");
  EXPECT_RELEASE_NOTICES(hk_slab_set_state(&second->slabs[31], hk_slab_small), "a free slab's descriptor says so");
  EXPECT_RELEASE_NOTICES(hk_store_relaxed(&second->slabs[31].owner, reinterpret_cast<hk_heap_t *>(16)),
                         "a free slab has no owner");
  Release(at.last);
}

HK_FRESH_TEST(SuperslabInvariantDeathTest, BucketsAndAges) {
  TwoSuperslabs at;
  hk_superslab_t *second = at.second;
  hk_list_t *bucket = at.BucketOf(second);
  hk_superslab_index_t *index = &hk_superslab_index[second->shard];
  unsigned bucket_index = second->longest_row - 1u;
  ASSERT_EQ(bucket->next, &second->link);
  EXPECT_RELEASE_NOTICES(second->start = 0, "the count of superslabs is their number");
  EXPECT_RELEASE_NOTICES(bucket->previous = bucket, "a bucket of superslabs is whole");
  EXPECT_RELEASE_NOTICES(second->shard = 1, "a bucket has superslabs of its shard");
  EXPECT_RELEASE_NOTICES((hk_list_remove(&second->link), hk_list_push_front(&index->bucket[3], &second->link)),
                         "a superslab is in the bucket of its longest free row");
  EXPECT_RELEASE_NOTICES(index->bucket_mask &= ~(1u << bucket_index), "a bucket is marked when it has a superslab");
  EXPECT_RELEASE_NOTICES((hk_list_init(bucket), index->bucket_mask &= ~(1u << bucket_index)),
                         "each superslab with a free slab is in one bucket");
  EXPECT_RELEASE_NOTICES(second->dirty_since = UINT64_MAX, "superslabs lie in the order of age");
  EXPECT_RELEASE_NOTICES(second->dirty_link.previous = &second->dirty_link, "a list of superslabs by age is whole");
  EXPECT_RELEASE_NOTICES(
      {
        hk_list_t link = second->dirty_link;
        hk_list_remove(&second->dirty_link);
        second->dirty_link = link;
      },
      "each superslab with something to purge is in one list by age");
  Release(at.last);
}

HK_FRESH_TEST(SuperslabInvariantDeathTest, Sums) {
  TwoSuperslabs at;
  EXPECT_RELEASE_NOTICES(hk_bump_relaxed(&hk_dirty_slabs[0].in_use_bytes, HK_SLAB_BYTES),
                         "the bytes in use are those of the slabs in use");
  EXPECT_RELEASE_NOTICES(hk_bump_relaxed(&hk_dirty_slabs[0].dirty_bytes, -HK_SLAB_BYTES),
                         "the dirty bytes are those of the dirty slabs");
  EXPECT_RELEASE_NOTICES(hk_bump_relaxed(&hk_dirty_slabs[0].lazy_bytes, HK_SLAB_BYTES),
                         "the lazy bytes are those of the lazy slabs");
  EXPECT_RELEASE_NOTICES(hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, 16), "large blocks use whole pages");
  Release(at.last);
}

// ---- Retention.

TEST(RetentionInvariantDeathTest, EachPartIsAtMostItsWhole) {
  hk_slack_t slack = {};
  hk_slack_check(&slack);
  slack.old_bytes = 1;
  EXPECT_DEATH(hk_slack_check(&slack), "old fragmentation slack is part of the slack");
}

TEST(RetentionInvariantDeathTest, LevelsLieInOrder) {
  hk_level_t level = {};
  hk_level_output_t none = [](void *, size_t, uint64_t) {};
  for (unsigned i = 0; i < 3; i++) hk_level_note(&level, 10 + i, 300 - 100 * i, none, nullptr);
  ASSERT_EQ(level.count, 2u);
  hk_level_check(&level);
  hk_level_t broken = level;
  broken.count = HK_LEVEL_SEGMENTS + 1;
  EXPECT_DEATH(hk_level_check(&broken), "the levels have room for their segments");
  broken = level;
  broken.segment[1].top_bytes = 300;
  EXPECT_DEATH(hk_level_check(&broken), "a level lies above the younger ones and what is in use");
  broken = level;
  broken.segment[0].since_ms = 13;
  EXPECT_DEATH(hk_level_check(&broken), "a higher level is older");
}

#endif

}  // namespace
