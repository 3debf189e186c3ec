/* A machine that does as it is told: fake_os.c and the two beside it stand in for os_linux.c at link time. Memory is
 * real; what may fail, the clock, the page size, huge pages, the memory nodes, the limit on memory, the environment and
 * stderr are the test's. It also watches over the contract of os.h: a range that is not whole pages, or an unmap,
 * purge, resize, move or wipe of what is not mapped, ends the test with a line on stderr.
 */
#ifndef HK_TESTS_SUPPORT_FAKE_OS_H
#define HK_TESTS_SUPPORT_FAKE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of os.h that may fail; those up to fake_os_thread_start are logged. */
typedef enum {
  fake_os_reserve,
  fake_os_unmap,
  fake_os_purge,
  fake_os_purge_lazily, /* refused alone; one that the system does not know is a purge */
  fake_os_prefault,
  fake_os_resize,
  fake_os_move,
  fake_os_wipe_on_fork,
  fake_os_allow_writes,
  fake_os_huge_ask, /* hk_os_huge_allow, of which it does nothing else than to log it */
  fake_os_huge_forbid,
  fake_os_huge_collapse,
  fake_os_thread_exit_init,
  fake_os_thread_start,
  fake_os_bare_thread_start,
  fake_os_resident, /* both questions about resident memory */
  fake_os_memory_limit,
  fake_os_call_count
} fake_os_call_t;

/* One call, in the order in which they began to take effect. */
typedef struct {
  fake_os_call_t call;
  bool succeeded;
  uintptr_t start;  /* what was asked about; of a reserve, what came of it */
  size_t bytes;     /* before, where a call changes them */
  size_t new_bytes; /* resize and move */
  size_t alignment; /* reserve */
  uintptr_t target; /* move */
} fake_os_record_t;

/* Everything below as at the start: nothing fails, no log, no stderr text, 4 KiB pages, one node, clock at
 * fake_os_start_ns, an empty environment. Memory that is still mapped stays so, and is still known. */
void fake_os_reset(void);

/* The `nth` such call from now on fails, and none after it; 1 is the next. 0 takes it back. */
void fake_os_fail_nth(fake_os_call_t call, uint64_t nth);
/* The same, and all such calls after it until told otherwise. */
void fake_os_fail_from(fake_os_call_t call, uint64_t nth);
/* All such calls fail until told otherwise, or none: also none of what fake_os_fail_from said. */
void fake_os_fail_all(fake_os_call_t call, bool fail);
/* Reserves and growing resizes that would bring the mapped bytes above `bytes` fail, as under ulimit -v. 0: none. */
void fake_os_limit_mapped(size_t bytes);

/* Runs before each reserve, purge, collapse or start of a thread (no other call has one), as what another thread does
 * meanwhile, or the C library. NULL: none. */
void fake_os_set_hook(fake_os_call_t call, void (*hook)(void));

/* Calls since the reset; failed ones count. */
uint64_t fake_os_calls(fake_os_call_t call);
uint64_t fake_os_failures(fake_os_call_t call);
/* The log keeps the first calls and counts on when it is full. */
size_t fake_os_log_length(void);
const fake_os_record_t *fake_os_log(size_t index);

size_t fake_os_mapped_bytes(void);
/* Since the reset. */
size_t fake_os_peak_mapped_bytes(void);
/* Whether all of it is mapped now. */
bool fake_os_is_mapped(const void *start, size_t bytes);
/* Gives back all that is mapped, whoever believes to own it. */
void fake_os_unmap_all(void);

/* The system's setting for huge pages (hk_os_huge_t, which is never at the start). */
void fake_os_set_huge(int setting);
/* What hk_os_huge_touch says that it took, 0 at the start; another time after so many more calls. And where it was
 * called last, and how often; it touches nothing. */
void fake_os_set_huge_fault(uint64_t cpu_ns);
void fake_os_set_later_huge_fault(uint64_t calls, uint64_t cpu_ns);
uintptr_t fake_os_huge_touched(void);
/* The same of hk_os_huge_collapse. */
void fake_os_set_huge_collapse(uint64_t cpu_ns);
uint64_t fake_os_huge_touches(void);

/* Whether the system knows a lazy purge, as it does at the start. After one every other page is zero and the rest is as
 * it was: of each it may be either. */
void fake_os_know_lazy_purge(bool is_known);

/* The program locks its memory from now on, or no longer, which makes nothing resident here; and how much was purged
 * for it (hk_os_purge_if_locked). */
void fake_os_lock_memory(bool lock);
size_t fake_os_locked_purge_bytes(void);

/* 4, 16 or 64 KiB. To be chosen before anything asks. */
void fake_os_set_page_size(size_t bytes);

/* How many memory nodes the machine has, to be chosen before anything asks; and the one that the calling thread is on:
 * 0 until it is told otherwise, also after a reset by another thread. */
void fake_os_set_node_count(unsigned count);
void fake_os_move_to_node(unsigned node);
/* How often the two were asked for. */
uint64_t fake_os_node_questions(void);

/* Of both clocks: the coarse one is as good as the other here. */
#define fake_os_start_ns ((uint64_t)1000000000)
void fake_os_set_now(uint64_t now_ns);
void fake_os_advance(uint64_t ns);
/* From now on each look at the clock takes so long. 0: no time. */
void fake_os_set_clock_step(uint64_t ns);

/* The array, which the test keeps, ends with NULL. NULL itself: not set up yet. */
void fake_os_set_environment(const char *const *environment);
void fake_os_set_secure_exec(bool secure);
/* What hk_os_rights says (hk_rights_t), which is settled at the start; and how often it was asked. */
void fake_os_set_rights(int rights);
uint64_t fake_os_rights_questions(void);
/* From now on this process and its children have this number, as the first processes of nested pid namespaces have. 0:
 * each its own. */
void fake_os_set_process_id(uint64_t process);
void fake_os_set_process_secret(uint64_t secret);
/* None at the start. `use_bytes` stays what the test says, whatever is mapped. */
void fake_os_set_memory_limit(size_t limit_bytes, size_t use_bytes, unsigned stalled_permille);
/* As where no file can be opened: it cannot be told. */
void fake_os_hide_memory_limit(bool hide);
/* How often it was asked for; and what is called when it is. */
uint64_t fake_os_memory_limit_questions(void);
void fake_os_set_memory_limit_hook(void (*hook)(void));
/* What the thread that was started last is to run, which it does when the test calls it; NULL: none was. */
void (*fake_os_thread(void))(void);
/* Allows a bare thread, which cannot be started by default. */
void fake_os_have_bare_thread(void);
/* Returns the function of the bare thread that was started since the last call, which the test calls itself; NULL: none
 * was. */
void (*fake_os_bare_thread(void))(void);
/* Returns how often the core signalled the first thread. */
uint64_t fake_os_signals_to_first_thread(void);
/* 0, at the start: it cannot be told. */
void fake_os_set_thread_count(unsigned count);

/* Says whether a thread sleeps (hk_os_thread_sleeps), by the number that hk_os_thread_self gave it. NULL, at the start:
 * none does. */
void fake_os_set_thread_sleeps(bool (*sleeps)(uint64_t number));

/* The calling thread is one that the C library has not made. */
void fake_os_be_bare(void);
/* The calling thread's exit handlers have run. */
void fake_os_be_ending(void);
/* hk_os_wait_for returns at once; for how long it would have waited the last time (0: the word was another already),
 * and what is called then. */
uint64_t fake_os_waited_ms(void);
void fake_os_set_wait_hook(void (*hook)(void));
/* hk_os_wait_for says from now on that the system refuses every way to wait. */
void fake_os_refuse_waits(bool refuse);
/* How often a thread was to be woken. */
uint64_t fake_os_wakes(void);
void fake_os_set_memory(size_t resident_bytes, size_t peak_resident_bytes);

/* What was written since the reset, as one text, and in how many calls. */
const char *fake_os_stderr(void);
uint64_t fake_os_stderr_writes(void);

/* Runs before the process ends in hk_os_abort. It may leave by longjmp or an exception. */
void fake_os_set_abort_hook(void (*hook)(void));

#ifdef __cplusplus
}
#endif

#endif /* HK_TESTS_SUPPORT_FAKE_OS_H */
