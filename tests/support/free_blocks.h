/* tests/support/free_blocks.h - frees blocks of a shadow model. The functions return false when a check fails. */
#ifndef HK_TESTS_SUPPORT_FREE_BLOCKS_H
#define HK_TESTS_SUPPORT_FREE_BLOCKS_H

#include "hakmem/hakmem.h"
#include "support/shadow_model.h"

namespace hk_test {

inline bool FreeBlock(ShadowModel *model, size_t index) {
  void *start = model->at(index).start;
  if (!model->Remove(index)) return false;
  hakmem_free(start);
  return true;
}

inline bool FreeBlocks(ShadowModel *model) {
  while (model->count() > 0) {
    if (!FreeBlock(model, 0)) return false;
  }
  return true;
}

} /* namespace hk_test */

#endif
