/* unwind/module.c - L6. See module.h. The list has one writer at a time, which claims it with its process's mark. A
 * child of fork may inherit the claim of a thread that it does not have: the mark is another process's, so the claim
 * is void. A reader that meets a writer finds nothing. */
#define _GNU_SOURCE 1

#include "unwind/module.h"

#include <dlfcn.h>

#include "base/arithmetic.h"
#include "base/atomic.h"
#include "os/os.h"
#include "os/process.h"
#include "unwind/module_map.h"

/* ---- The dynamic linker's answer. */

#ifdef DLFO_EH_SEGMENT_TYPE

/* Older systems and some static programs do not have it. */
#pragma weak _dl_find_object

static bool has_linker_lookup(void) { return _dl_find_object != NULL; }

static bool find_by_linker(uintptr_t pc, hk_module_t *module) {
  struct dl_find_object found;
  if (_dl_find_object((void *)pc, &found) != 0) return false;
  module->start = (uintptr_t)found.dlfo_map_start;
  module->end = (uintptr_t)found.dlfo_map_end;
  module->index = (uintptr_t)found.dlfo_eh_frame;
  return true;
}

#else

static bool has_linker_lookup(void) { return false; }

static bool find_by_linker(uintptr_t pc, hk_module_t *module) {
  (void)pc;
  (void)module;
  return false;
}

#endif

/* ---- The list. */

#define LISTED_MAX 512
/* The list is renewed at most once in this time. An address outside it may belong to a module that was loaded since, or
 * to none for good. */
#define LIST_AGE_MS 1000

typedef struct {
  _Atomic(uintptr_t) start;
  _Atomic(uintptr_t) end;
  _Atomic(uintptr_t) index;
} listed_t;

static listed_t listed[LISTED_MAX];
static _Atomic(unsigned) listed_count;
static _Atomic(uint64_t) version;      /* odd while a thread writes */
static _Atomic(uint64_t) writer;       /* the mark of the writer's process; 0: none */
static _Atomic(uint64_t) listed_at_ms; /* 0: never */

static void list_mapping(const hk_module_mapping_t *mapping, unsigned *count) {
  if (!mapping->is_code || mapping->header == 0 || *count == LISTED_MAX) return;
  uintptr_t index = hk_module_unwind_index(mapping->header);
  if (index == 0) return;
  listed_t *entry = &listed[(*count)++];
  hk_store_relaxed(&entry->start, mapping->start);
  hk_store_relaxed(&entry->end, mapping->end);
  hk_store_relaxed(&entry->index, index);
}

/* The writer's. Not on its stack, which may have few pages left. */
static hk_module_map_t map;

static void write_list(void) {
  if (!hk_module_map_open(&map)) return;
  uint64_t odd = hk_load_relaxed(&version) | 1;
  (void)hk_exchange_acq_rel(&version, odd);
  unsigned count = 0;
  while (hk_module_map_next(&map)) list_mapping(&map.mapping, &count);
  hk_store_relaxed(&listed_count, count);
  hk_store_release(&version, odd + 1);
  hk_module_map_close(&map);
}

static bool renew_list(void) {
  uint64_t now_ms = hk_os_coarse_ms() + 1, before_ms = hk_load_relaxed(&listed_at_ms);
  if (before_ms != 0 && hk_subtract_to_zero(now_ms, before_ms) < LIST_AGE_MS) return false;
  uint64_t process = hk_process_mark(), found = hk_load_relaxed(&writer);
  if (found == process || !hk_compare_exchange_acquire(&writer, &found, process)) return false;
  write_list();
  hk_store_relaxed(&listed_at_ms, now_ms);
  hk_store_release(&writer, 0);
  return true;
}

static bool find_in_list(uintptr_t pc, hk_module_t *module) {
  uint64_t before = hk_load_acquire(&version);
  if ((before & 1) != 0) return false;
  unsigned low = 0, high = hk_load_relaxed(&listed_count);
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (hk_load_relaxed(&listed[middle].end) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == hk_load_relaxed(&listed_count)) return false;
  module->start = hk_load_relaxed(&listed[low].start);
  module->end = hk_load_relaxed(&listed[low].end);
  module->index = hk_load_relaxed(&listed[low].index);
  /* A read-modify-write stays behind the loads above; another load may move before them. */
  return module->start <= pc && atomic_fetch_add_explicit(&version, 0, memory_order_acq_rel) == before;
}

bool hk_module_find_listed(uintptr_t pc, hk_module_t *module) {
  return find_in_list(pc, module) || (renew_list() && find_in_list(pc, module));
}

bool hk_module_find(uintptr_t pc, hk_module_t *module) {
  return has_linker_lookup() ? find_by_linker(pc, module) : hk_module_find_listed(pc, module);
}
