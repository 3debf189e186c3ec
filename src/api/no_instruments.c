/* api/no_instruments.c - L5. Stands in for the instruments where the build option HK_INSTRUMENTS is OFF. No block is
 * sampled, because the profile never starts. */
#include <errno.h>

#include "api/guarded.h"
#include "api/instruments.h"
#include "api/sample_hook.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

bool hk_sample_hook_is_inside(void) { return false; }
hk_site_t *hk_sample_hook_site(void) { return NULL; }
void hk_sample_hook_prefetch(void) {}
bool hk_sample_hook_note(uintptr_t address, size_t offset, size_t requested, size_t bytes, uint64_t weight_q16) {
  (void)address, (void)offset, (void)requested, (void)bytes, (void)weight_q16;
  return false;
}
bool hk_sample_hook_forget(uintptr_t address, bool is_freed) {
  (void)address, (void)is_freed;
  return false;
}
void hk_sample_hook_forget_named(const struct hk_named *named) { (void)named; }
void hk_sample_hook_forget_code(void) {}
void hk_sample_hook_print_named(const struct hk_named *named) { (void)named; }
hk_sample_life_t hk_sample_hook_find(uintptr_t address, hk_sample_t *sample) {
  (void)address, (void)sample;
  return hk_sample_none;
}

static void say_missing(void) {
  static const char message[] = "hakmem: this build has no instruments\n";
  hk_os_write_stderr(message, sizeof message - 1);
}

bool hk_profile_start(uint64_t rate) {
  (void)rate;
  say_missing();
  return false;
}
void hk_profile_begin_child(void) {}

void hk_crash_report_install(void) {}
void hk_crash_report_begin_thread(void) {}
void hk_crash_report_end_thread(void) {}

/* Says no more than where it happened. */
bool hk_guard_report(const hk_guard_event_t *event, bool is_quiet) {
  if (!hk_guarded_note_place(event->crash != NULL ? event->crash->program_counter : event->block.start)) return false;
  char text[160];
  hk_format_t line;
  hk_format_init(&line, text, sizeof text);
  hk_format_print(&line, "hakmem: guard: memory error at %p, beside or in a block of %n at %p\n", event->address,
                  (uint64_t)event->block.bytes, event->block.start);
  if (!is_quiet) hk_os_write_stderr(line.text, line.length);
  return true;
}

void hk_describe_neighbour(hk_format_t *out, uintptr_t address, const hk_address_class_t *where) {
  (void)out, (void)address, (void)where;
}

void hk_serve_prepare(void) {}
void hk_serve_end_soon(void) {}
_Atomic(bool) hk_serve_is_wanted;
void hk_serve_consider_slow(void) {}

/* The override folder exports these two under glibc's names. */
int hakmem_malloc_info(int options, FILE *stream) {
  if (options != 0) return EINVAL;
  int written = fprintf(stream, "<malloc version=\"hakmem-%d.%d.%d\"/>\n", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR,
                        HAKMEM_VERSION_PATCH);
  return written < 0 ? EIO : 0;
}
void hakmem_malloc_stats(void) { say_missing(); }
