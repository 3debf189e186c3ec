// base/list: order, removal, and what a node outside every list looks like.
#include "base/list.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

struct Item {
  int number;
  hk_list_t link;
};

std::vector<int> Numbers(const hk_list_t *list) {
  std::vector<int> forwards;
  for (hk_list_t *node = list->next; node != list; node = node->next) {
    forwards.push_back(HK_CONTAINER_OF(node, Item, link)->number);
  }
  std::vector<int> backwards;
  for (hk_list_t *node = list->previous; node != list; node = node->previous) {
    backwards.insert(backwards.begin(), HK_CONTAINER_OF(node, Item, link)->number);
  }
  EXPECT_EQ(forwards, backwards);
  return forwards;
}

class List : public testing::Test {
 protected:
  void SetUp() override { hk_list_init(&list_); }

  hk_list_t list_;
  Item items_[3] = {{1, {}}, {2, {}}, {3, {}}};
};

TEST_F(List, IsEmptyAtFirst) {
  EXPECT_TRUE(hk_list_is_empty(&list_));
  EXPECT_EQ(Numbers(&list_), std::vector<int>());
}

TEST_F(List, ANodeOfZerosIsNotLinked) {
  EXPECT_FALSE(hk_list_is_linked(&items_[0].link));
  hk_list_push_back(&list_, &items_[0].link);
  EXPECT_TRUE(hk_list_is_linked(&items_[0].link));
}

TEST_F(List, PushBackKeepsTheOrder) {
  for (Item &item : items_) hk_list_push_back(&list_, &item.link);
  EXPECT_FALSE(hk_list_is_empty(&list_));
  EXPECT_EQ(Numbers(&list_), (std::vector<int>{1, 2, 3}));
}

TEST_F(List, PushFrontTurnsItAround) {
  for (Item &item : items_) hk_list_push_front(&list_, &item.link);
  EXPECT_EQ(Numbers(&list_), (std::vector<int>{3, 2, 1}));
}

TEST_F(List, InsertAfter) {
  hk_list_push_back(&list_, &items_[0].link);
  hk_list_push_back(&list_, &items_[1].link);
  hk_list_insert_after(&items_[0].link, &items_[2].link);
  EXPECT_EQ(Numbers(&list_), (std::vector<int>{1, 3, 2}));
}

TEST_F(List, RemoveFromEachPlace) {
  for (int victim = 0; victim < 3; victim++) {
    hk_list_init(&list_);
    for (Item &item : items_) hk_list_push_back(&list_, &item.link);
    hk_list_remove(&items_[victim].link);
    EXPECT_FALSE(hk_list_is_linked(&items_[victim].link));
    EXPECT_EQ(items_[victim].link.previous, nullptr);
    std::vector<int> left = {1, 2, 3};
    left.erase(left.begin() + victim);
    EXPECT_EQ(Numbers(&list_), left);
  }
}

TEST_F(List, RemovingTheLastLeavesItEmptyAndUsable) {
  hk_list_push_front(&list_, &items_[0].link);
  hk_list_remove(&items_[0].link);
  EXPECT_TRUE(hk_list_is_empty(&list_));
  hk_list_push_front(&list_, &items_[1].link);
  EXPECT_EQ(Numbers(&list_), std::vector<int>{2});
}

TEST_F(List, ANodeMovesBetweenLists) {
  hk_list_t other;
  hk_list_init(&other);
  hk_list_push_back(&list_, &items_[0].link);
  hk_list_remove(&items_[0].link);
  hk_list_push_back(&other, &items_[0].link);
  EXPECT_TRUE(hk_list_is_empty(&list_));
  EXPECT_EQ(Numbers(&other), std::vector<int>{1});
}

}  // namespace
