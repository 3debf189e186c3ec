/* api/lifecycle.c - L5. See lifecycle.h.
 *
 * Creating a thread allocates, so the first allocation of a process comes before its second thread, and the start needs
 * no lock. It can come before the C library has set up the environment: the constructor reads the options.
 */
#include "api/lifecycle.h"

#include "api/guarded.h"
#include "api/instruments.h"
#include "base/atomic.h"
#include "base/count.h"
#include "heap/detach.h"
#include "heap/named.h"
#include "heap/orphan.h"
#include "heap/part.h"
#include "heap/pool.h"
#include "heap/remote.h"
#include "os/call_count.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/process.h"
#include "os/sandbox_status.h"
#include "os/shard.h"
#include "os/stack_top.h"
#include "os/stay_loaded.h"
#include "policy/option.h"
#include "policy/safety.h"
#include "policy/stat.h"
#include "space/class_slabs.h"
#include "space/dirty.h"
#include "space/large.h"
#include "space/purge_wakeup.h"
#include "space/recording.h"
#include "space/region_map.h"
#include "space/superslab.h"
#include "space/superslab_index.h"
#include "space/timed_call.h"

typedef enum { not_started, core_started, hooks_installed } stage_t;

static _Atomic(int) stage = not_started;

/* Set in a child of fork until its orphans are adopted: the variable that names the heap of the thread that forked. A
 * signal handler may fork while the variable changes, so it is read with the repair, which waits until the change is
 * done. */
static hk_heap_variable_t *forkers_heap;

/* The table of parts of the thread that forked. */
static hk_part_table_t *forkers_parts;

static void adopt_orphans(void) {
  if (forkers_heap == NULL) return;
  hk_forker_t forker = {.variable = forkers_heap, .heap = hk_load_relaxed(forkers_heap)};
  forker.base = hk_part_base_of(forkers_parts, forker.heap);
  forkers_heap = NULL;
  hk_orphan_settle_all(&forker);
  hk_part_adopt(forkers_parts, &forker);
}

/* Runs in a child of fork, before any lock is taken there. After _Fork or a bare clone no at-fork handler has run, and
 * the calling thread need not be the one that forked. */
static void repair_child(void) {
  hk_superslab_index_repair();
  hk_large_repair();
  if (HK_HARDENED) hk_class_slabs_repair();
  hk_detach_repair();
  hk_named_repair();
  hk_heap_repair();
  hk_remote_note_fork();
  hk_recording_repair(hk_dirty_in_use());
  hk_purge_wakeup_repair();
  hk_dirty_repair();
  adopt_orphans();
}

/* Clears the counts in a child that reports statistics, so that it reports its own. Otherwise the pages of the counts
 * stay shared with the parent. */
static void forget_parents_counts(void) {
  if (!hk_option.stats && *hk_option.stats_file == '\0') return;
  hk_stat_clear(&hk_stat_process);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) hk_stat_clear(&heap->stat);
  hk_call_count_clear();
  hk_count_clear();
}

/* Runs in the child's only thread, the one that forked. */
static void after_fork_in_child(void) {
  hk_os_process_id_after_fork();
  forget_parents_counts(); /* first: what the repair counts as lost belongs to the child */
  if (*hk_option.profile_file != '\0') hk_profile_begin_child();
  forkers_heap = &hk_thread_heap;
  forkers_parts = hk_part_table;
  if (hk_lock_after_fork(true)) adopt_orphans();
  hk_process_note();
  hk_purge_wakeup_allow();
}

#if HK_COUNT
static void look_at_memory(void) {
  hk_superslab_usage_t slabs = hk_superslab_usage();
  hk_large_usage_t large = hk_large_usage();
  size_t in_use_bytes = slabs.in_use_bytes + large.mapped_bytes;
  hk_count_peak(hk_count_peak_in_use, in_use_bytes);
  hk_count_peak(hk_count_peak_held, in_use_bytes + slabs.dirty_bytes + large.dirty_bytes);
}
static void start_counting(void) { hk_count_hook = look_at_memory; }
#else
static void start_counting(void) {}
#endif

static const char own_status[] = "/proc/self/status";

/* Calls the C library before it starts anything. When an interposed getauxval allocates, that allocation comes here
 * first and starts the core. */
static void start_core(void) {
  (void)hk_os_page_size();
  (void)hk_os_vdso();
  uint64_t secret = hk_os_process_secret();
  if (hk_load_relaxed(&stage) != not_started) return;
  hk_store_relaxed(&stage, core_started);
  hk_store_relaxed(&hk_sandbox_level, (int)hk_sandbox_status_read(own_status));
  hk_os_note_stderr();                                 /* before the program opens a file */
  if (hk_sandbox_may_kill()) (void)hk_os_process_id(); /* this is the first thread, which knows it without a call */
  start_counting();
  hk_safety_init(secret);
  hk_region_map_init();
  (void)hk_lock_init(repair_child); /* on failure the locks work, but a child of fork may find one held */
}

static void on_thread_exit(void) {
  hk_crash_report_end_thread();
  hk_part_on_exit();
  hk_thread_on_exit();
}

/* The C library may allocate in these calls: the core has started. */
static void install_hooks(void) {
  hk_store_relaxed(&stage, hooks_installed);
  hk_os_stay_loaded();                          /* first: others keep the hooks' addresses */
  (void)hk_os_thread_exit_init(on_thread_exit); /* on failure, heaps of ended threads stay unused */
  hk_os_at_fork(after_fork_in_child);
  hk_process_note();
  hk_purge_wakeup_allow();
  hk_timed_call_allow();
  hk_thread_arm();
}

void hk_lifecycle_start(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&stage) == not_started)) start_core();
}

/* Runs before the thread attaches a heap. From then on its exit handler runs, which ends what begins here. */
static void begin_thread(void) {
  if (!hk_thread_keeps_no_heap()) hk_crash_report_begin_thread();
}

hk_thread_lease_t hk_lifecycle_enter_heapless(void) {
  hk_lifecycle_start();
  begin_thread();
  return hk_thread_enter();
}

void hk_lifecycle_read_settings(void) {
  (void)hk_os_huge_setting();
  (void)hk_shard_current();
  (void)hk_os_process_id();
  hk_dirty_look_at_limit(hk_os_coarse_ms());
}

void hk_lifecycle_note_filter(void) {
  int level = hk_load_relaxed(&hk_sandbox_level);
  if (hk_option.sandbox == hk_sandbox_off || level >= (int)hk_sandbox_filtered) return;
  hk_store_relaxed(&hk_sandbox_is_near, true);
  hk_os_signal_ignore(true);
  /* Fails when another thread has just noted a filter. */
  (void)hk_compare_exchange_acquire(&hk_sandbox_level, &level, (int)hk_sandbox_filtered);
}

/* A container's own filter, the one that the container's first process has too, refuses calls and does not kill. */
static bool is_filter_of_container(void) {
  const char *const *environment = hk_os_is_secure_exec() ? NULL : hk_os_environment();
  return hk_sandbox_status_is_contained(environment, hk_sandbox_container_files) &&
         hk_sandbox_status_is_same(own_status, "/proc/1/status");
}

/* The option overrides what the library detects: the user may know of a filter that it cannot see. Under a filter that
 * came through exec, all code that runs earlier in the process makes only system calls that are known to be allowed. */
static void settle_sandbox(void) {
  if (hk_load_relaxed(&hk_sandbox_level) == (int)hk_sandbox_inherited && is_filter_of_container()) {
    hk_store_relaxed(&hk_sandbox_level, (int)hk_sandbox_container);
  }
  if (hk_option.sandbox == hk_sandbox_off) hk_store_relaxed(&hk_sandbox_level, (int)hk_sandbox_none);
  if (hk_option.sandbox != hk_sandbox_on) return;
  hk_lifecycle_read_settings();
  hk_store_relaxed(&hk_sandbox_level, (int)hk_sandbox_filtered);
}

void hk_lifecycle_prepare(void) {
  static bool is_settled;
  hk_lifecycle_start();
  hk_option_load();
  if (is_settled || hk_os_environment() == NULL) return;
  is_settled = true;
  settle_sandbox();
  if (hk_option.shards > 0) hk_shard_set_each((unsigned)hk_option.shards);
}

/* Warns where an option takes the defences of the hardened library away. With `warn` each misuse has its own line. */
static void check_options(void) {
  if (hk_option.on_misuse != hk_misuse_ignore) return;
  hk_option_warn("HAKMEM_ON_MISUSE", "ignore", "weakens the hardened library",
                 "the program goes on after a misuse, which an attacker may have made");
}

static void start_guards(void) {
  hk_guard_start_t started = hk_guarded_start(hk_option.guard);
  if (started == hk_guard_on) return;
  hk_option_warn_unused("HAKMEM_GUARD", hk_option.guard,
                        started == hk_guard_no_memory ? "the system refuses the addresses"
                                                      : "a system call filter may kill for a signal handler");
}

__attribute__((constructor)) static void start(void) {
  hk_lifecycle_prepare();
  if (HK_HARDENED) check_options();
  (void)hk_shard_current(); /* system calls now instead of in a request, before the program binds its threads */
  (void)hk_os_stack_top((uintptr_t)__builtin_frame_address(0)); /* notes the first thread, on its own stack */
  if (hk_option.profile || hk_option.leaks != hk_leaks_off) (void)hk_profile_start(0);
  if (hk_load_relaxed(&stage) == core_started) install_hooks();
  hk_crash_report_install();
  if (hk_option.guard != 0) start_guards(); /* last: its handler goes before the others */
}
