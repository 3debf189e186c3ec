/* report/glibc_report.c - L9. The counters through glibc's interface: the XML of malloc_info. */
#include <errno.h>

#include "inspect/snapshot.h"

int hakmem_malloc_info(int options, FILE *stream) {
  if (options != 0) return EINVAL;
  hk_totals_t totals = hk_totals_take();
  bool has_failed = false;
  has_failed |= fprintf(stream, "<malloc version=\"hakmem-%s\">\n", hakmem_version()) < 0;
  has_failed |= fprintf(stream, "<superslabs count=\"%zu\" mapped=\"%zu\" in_use=\"%zu\" idle=\"%zu\"/>\n",
                        totals.superslab.superslab_count, totals.superslab.mapped_bytes, totals.superslab.in_use_bytes,
                        totals.superslab.dirty_bytes) < 0;
  has_failed |=
      fprintf(stream, "<big count=\"%zu\" mapped=\"%zu\"/>\n", totals.large.count, totals.large.mapped_bytes) < 0;
  has_failed |= fprintf(stream, "<records mapped=\"%zu\"/>\n", totals.record_bytes) < 0;
  has_failed |= fprintf(stream, "<heaps count=\"%zu\" idle=\"%zu\" lost=\"%zu\"/>\n", totals.heap_count,
                        totals.heap_idle_count, totals.heap_lost_count) < 0;
  for (unsigned i = 0; i < hk_stat_count; i++) {
    has_failed |= fprintf(stream, "<event name=\"%s\" value=\"%llu\"/>\n", hk_stat_text[i].name,
                          (unsigned long long)totals.counter[i]) < 0;
  }
  has_failed |= fprintf(stream, "</malloc>\n") < 0;
  return has_failed ? EIO : 0;
}
