/* api/glibc_report.c - L6. What glibc's interface tells of the counters: XML, mallinfo and mallinfo2. */
#include <errno.h>
#include <limits.h>

#include "api/snapshot.h"

/* ---- XML. */

int hakmem_malloc_info(int options, FILE *stream) {
  if (options != 0) return EINVAL;
  hk_totals_t totals = hk_totals_take();
  fprintf(stream, "<malloc version=\"hakmem-%s\">\n", hakmem_version());
  fprintf(stream, "<superslabs count=\"%zu\" mapped=\"%zu\" in_use=\"%zu\" idle=\"%zu\"/>\n",
          totals.superslab.superslab_count, totals.superslab.mapped_bytes, totals.superslab.in_use_bytes,
          totals.superslab.idle_bytes);
  fprintf(stream, "<big count=\"%zu\" mapped=\"%zu\"/>\n", totals.large.count, totals.large.mapped_bytes);
  fprintf(stream, "<records mapped=\"%zu\"/>\n", totals.record_bytes);
  fprintf(stream, "<heaps count=\"%zu\" idle=\"%zu\" lost=\"%zu\"/>\n", totals.heap_count, totals.heap_idle_count,
          totals.heap_lost_count);
  for (unsigned i = 0; i < hk_stat_count; i++) {
    fprintf(stream, "<event name=\"%s\" value=\"%llu\"/>\n", hk_stat_text[i].name,
            (unsigned long long)totals.counter[i]);
  }
  return fprintf(stream, "</malloc>\n") < 0 ? EIO : 0;
}

/* ---- glibc's structs. */

struct mallinfo2 hakmem_mallinfo2(void) {
  hk_totals_t totals = hk_totals_take();
  return (struct mallinfo2){
      .arena = totals.superslab.mapped_bytes,
      .ordblks = totals.superslab.idle_bytes / HK_SLAB_BYTES,
      .hblks = totals.large.count,
      .hblkhd = totals.large.mapped_bytes,
      .uordblks = totals.superslab.in_use_bytes,
      .fordblks = totals.superslab.mapped_bytes - totals.superslab.in_use_bytes,
      .keepcost = totals.superslab.idle_bytes,
  };
}

static int saturate(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

struct mallinfo hakmem_mallinfo(void) {
  struct mallinfo2 wide = hakmem_mallinfo2();
  return (struct mallinfo){
      .arena = saturate(wide.arena),
      .ordblks = saturate(wide.ordblks),
      .hblks = saturate(wide.hblks),
      .hblkhd = saturate(wide.hblkhd),
      .uordblks = saturate(wide.uordblks),
      .fordblks = saturate(wide.fordblks),
      .keepcost = saturate(wide.keepcost),
  };
}
