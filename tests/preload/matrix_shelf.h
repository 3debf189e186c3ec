/* tests/preload/matrix_shelf.h - the shelf of option_matrix.cc: blocks that any thread may put or take. No thread
 * touches a block that lies there, and its lock is held across fork: so a child may check and free all of them.
 */
#ifndef PRELOAD_MATRIX_SHELF_H
#define PRELOAD_MATRIX_SHELF_H

#include <pthread.h>

#include "matrix_block.h"

namespace {

constexpr size_t kShelfBlocks = 1500; /* on their way from thread to thread */
constexpr size_t kShelfBytes = 8 * kMiB;

pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
block_t shelf[kShelfBlocks];
size_t shelf_count, shelf_bytes;

/* Returns false when there is no room. */
bool put(const block_t &block) {
  pthread_mutex_lock(&shelf_lock);
  bool has_room = shelf_count < kShelfBlocks && shelf_bytes + block.usable <= kShelfBytes;
  if (has_room) {
    shelf[shelf_count++] = block;
    shelf_bytes += block.usable;
  }
  pthread_mutex_unlock(&shelf_lock);
  return has_room;
}

bool take(TestRandom &random, block_t &block) {
  pthread_mutex_lock(&shelf_lock);
  bool has_one = shelf_count > 0;
  if (has_one) {
    size_t index = random.Below(shelf_count);
    block = shelf[index];
    shelf[index] = shelf[--shelf_count];
    shelf_bytes -= block.usable;
  }
  pthread_mutex_unlock(&shelf_lock);
  return has_one;
}

}  // namespace

#endif /* PRELOAD_MATRIX_SHELF_H */
