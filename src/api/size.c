/* api/size.c - L5. Sizes of blocks: of one that exists, and of one that a request would get. */
#include "api/alloc.h"
#include "api/misuse.h"
#include "api/verify.h"
#include "hakmem/hakmem.h"
#include "policy/size_class.h"
#include "space/large.h"
#include "space/run.h"

size_t hk_slab_good_size(size_t size) {
  return size <= HK_RUN_MAX_BYTES && !HK_HARDENED ? hk_run_good_size(size) : hk_large_good_size(size);
}

size_t hk_good_size(size_t size) {
  if (HK_HARDENED && size == 0) return 0; /* space/nothing.h */
  return size <= HK_SMALL_MAX_BYTES ? hk_class_usable_bytes(hk_class_of_request(size)) : hk_slab_good_size(size);
}

size_t hk_usable_size_slow(const void *block) {
  if (block == NULL) return 0;
  hk_finding_t finding = hk_verify(block);
  if (finding.verdict == hk_verdict_live) return finding.bytes;
  hk_misuse_address(hk_act_usable_size, block);
  return 0;
}

size_t hakmem_malloc_usable_size(void *block) { return hk_usable_size(block); }
size_t hakmem_good_size(size_t size) {
  size_t good_size = hk_good_size(size);
  return good_size != 0 ? good_size : size; /* no block is that large; a request for it fails */
}
