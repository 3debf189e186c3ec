/* space/superslab_check.c - L3. See superslab_check.h. */
#include "space/superslab_check.h"

#include "base/atomic.h"
#include "base/list.h"
#include "base/mask.h"
#include "os/shard.h"
#include "space/dirty_account.h"
#include "space/superslab_index.h"

#if HK_DEBUG

static const hk_superslab_index_t *index_of(const hk_superslab_t *superslab) {
  return &hk_superslab_index[hk_superslab_index_shard(superslab)];
}

typedef struct {
  size_t count;     /* superslabs */
  size_t with_free; /* superslabs in a bucket */
  size_t by_age;
  size_t all, in_use, dirty, lazy; /* slabs */
} walked_t;

static void walk_superslab(const hk_superslab_t *superslab, walked_t *walked) {
  hk_superslab_index_check_one_locked(superslab);
  walked->count++;
  walked->with_free += superslab->longest_row > 0;
  walked->by_age += hk_list_is_linked(&superslab->dirty_link);
  walked->all += hk_mask_count(superslab->slab_mask);
  walked->in_use += hk_mask_count(superslab->in_use_mask);
  walked->dirty += hk_mask_count(hk_superslab_index_dirty_bits(superslab));
  walked->lazy += hk_mask_count(superslab->lazy_mask);
}

/* Checks the superslabs of an index; NULL: of all. */
static walked_t check_records_locked(const hk_superslab_index_t *index) {
  walked_t walked = {0};
  const hk_superslab_t *superslab = hk_superslab_index_next_record_locked(NULL);
  for (; superslab != NULL; superslab = superslab->all_next) {
    bool is_of_index = index == NULL || index_of(superslab) == index;
    if (superslab->start != 0 && is_of_index) walk_superslab(superslab, &walked);
  }
  return walked;
}

static size_t check_bucket_locked(const hk_superslab_index_t *index, unsigned bucket) {
  size_t count = 0;
  for (const hk_list_t *node = index->bucket[bucket].next; node != &index->bucket[bucket]; node = node->next) {
    const hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, link);
    HK_REQUIRE(node->next->previous == node, "a bucket of superslabs is whole");
    HK_REQUIRE(index_of(superslab) == index && superslab->start != 0, "a bucket has superslabs of its shard");
    HK_REQUIRE(superslab->longest_row == bucket + 1, "a superslab is in the bucket of its longest free row");
    count++;
  }
  HK_REQUIRE((hk_load_relaxed(&index->bucket_mask) >> bucket & 1) == (count > 0),
             "a bucket is marked when it has a superslab");
  return count;
}

static size_t check_buckets_locked(const hk_superslab_index_t *index) {
  size_t count = 0;
  for (unsigned i = 0; i < HK_SUPERSLAB_INDEX_BUCKETS; i++) count += check_bucket_locked(index, i);
  return count;
}

static size_t check_ages_locked(const hk_superslab_index_t *index, const hk_list_t *list) {
  size_t count = 0;
  uint64_t age = 0;
  for (const hk_list_t *node = list->next; node != list; node = node->next) {
    const hk_superslab_t *superslab = HK_CONTAINER_OF(node, hk_superslab_t, dirty_link);
    HK_REQUIRE(node->previous->next == node, "a list of superslabs by age is whole");
    HK_REQUIRE(index_of(superslab) == index, "a list by age has superslabs of its shard");
    HK_REQUIRE((superslab->dirty_since != 0) == (list == &index->dirty), "a superslab's age says which list it is in");
    HK_REQUIRE(superslab->dirty_since >= age, "superslabs lie in the order of age");
    age = superslab->dirty_since;
    count++;
  }
  return count;
}

static void check_index_locked(const hk_superslab_index_t *index, hk_dirty_account_t *account) {
  walked_t walked = check_records_locked(index);
  HK_REQUIRE(check_buckets_locked(index) == walked.with_free, "each superslab with a free slab is in one bucket");
  size_t by_age = check_ages_locked(index, &index->dirty) + check_ages_locked(index, &index->lazy);
  HK_REQUIRE(by_age == walked.by_age, "each superslab with something to purge is in one list by age");
  HK_REQUIRE(hk_load_relaxed(&account->in_use_bytes) == walked.in_use * HK_SLAB_BYTES,
             "the bytes in use are those of the slabs in use");
  HK_REQUIRE(hk_load_relaxed(&account->dirty_bytes) == walked.dirty * HK_SLAB_BYTES,
             "the dirty bytes are those of the dirty slabs");
  HK_REQUIRE(hk_load_relaxed(&account->lazy_bytes) == walked.lazy * HK_SLAB_BYTES,
             "the lazy bytes are those of the lazy slabs");
}

uint64_t hk_superslab_check_locked(void) {
  walked_t walked = check_records_locked(NULL);
  HK_REQUIRE(walked.count == hk_superslab_index_superslab_count(), "the count of superslabs is their number");
  HK_REQUIRE(hk_superslab_index_mapped_bytes() == walked.all * HK_SLAB_BYTES,
             "the bytes mapped are those of the slabs");
  for (unsigned i = 0; i < HK_SHARD_MAX; i++) {
    if (hk_superslab_index[i].is_ready) check_index_locked(&hk_superslab_index[i], &hk_dirty_slabs[i]);
  }
  return walked.count * HK_SUPERSLAB_SLABS;
}

#endif
