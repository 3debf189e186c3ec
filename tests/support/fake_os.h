/* A machine that the test controls: fake_os.c and the two files beside it replace os_linux.c at link time. Memory is
 * real. The test sets which calls fail, the clock, the page size, huge pages, the memory nodes, the limit on memory,
 * the environment and stderr.
 *
 * The machine also checks the contract of os.h. A range that is not whole pages, or an unmap, purge, resize, move or
 * wipe of unmapped memory, ends the test with a line on stderr.
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
  fake_os_purge_lazily, /* the lazy purge itself; without one, the system purges at once */
  fake_os_prefault,
  fake_os_resize,
  fake_os_move,
  fake_os_wipe_on_fork,
  fake_os_allow_writes,
  fake_os_huge_ask, /* hk_os_huge_advise, which the machine only logs */
  fake_os_huge_forbid,
  fake_os_huge_collapse,
  fake_os_thread_exit_init,
  fake_os_thread_start,
  fake_os_bare_thread_start,
  fake_os_resident, /* hk_os_resident_pages and hk_os_resident_bytes */
  fake_os_memory_limit,
  fake_os_call_count
} fake_os_call_t;

/* A call of the log, which is in the order in which calls took effect. */
typedef struct {
  fake_os_call_t call;
  bool succeeded;
  uintptr_t start;  /* the range's; after a reserve, the result */
  size_t bytes;     /* the range's; before a call that changes them */
  size_t new_bytes; /* resize and move */
  size_t alignment; /* reserve */
  uintptr_t target; /* move */
} fake_os_record_t;

/* Sets everything below as at the start: no call fails, no log, no stderr text, 4 KiB pages, one node, the clock at
 * fake_os_start_ns, an empty environment. Mapped memory stays mapped and known. So do the threads' own settings, but
 * for the calling thread's node. */
void fake_os_reset(void);

/* Lets the `nth` such call from now on fail, and none after it; 1 is the next. 0 cancels this. */
void fake_os_fail_nth(fake_os_call_t call, uint64_t nth);
/* The same with all later such calls, too. */
void fake_os_fail_from(fake_os_call_t call, uint64_t nth);
/* Lets all such calls fail from now on, or none. Both cancel fake_os_fail_from. */
void fake_os_fail_all(fake_os_call_t call, bool fail);
/* Lets reserves and growing resizes fail that would bring the mapped bytes above `bytes`, as under ulimit -v. 0: no
 * limit. */
void fake_os_limit_mapped(size_t bytes);

/* Sets a function to run before each reserve, purge, collapse, hk_os_resident_bytes or start of a thread, and after
 * each move that succeeds; other calls run none. It stands for another thread, or the C library. NULL: none. */
void fake_os_set_hook(fake_os_call_t call, void (*hook)(void));

/* The calls since the reset, failed ones too. */
uint64_t fake_os_calls(fake_os_call_t call);
uint64_t fake_os_failures(fake_os_call_t call);
/* The log keeps the first calls; its length counts all. */
size_t fake_os_log_length(void);
const fake_os_record_t *fake_os_log(size_t index);

size_t fake_os_mapped_bytes(void);
/* The peak since the reset. */
size_t fake_os_peak_mapped_bytes(void);
/* Returns whether the whole range is mapped. */
bool fake_os_is_mapped(const void *start, size_t bytes);
/* Unmaps all ranges, also those in use. */
void fake_os_unmap_all(void);

/* Sets the system's setting for huge pages (a hk_os_huge_t; at the start: never). */
void fake_os_set_huge(int setting);
/* Set the time that hk_os_huge_touch returns, 0 at the start: from now on, or after `calls` more calls. It touches
 * nothing. */
void fake_os_set_huge_fault(uint64_t cpu_ns);
void fake_os_set_later_huge_fault(uint64_t calls, uint64_t cpu_ns);
/* Returns the address of the last touch. */
uintptr_t fake_os_huge_touched(void);
/* Sets the time that hk_os_huge_collapse returns, 0 at the start. */
void fake_os_set_huge_collapse(uint64_t cpu_ns);
/* Returns the number of touches. */
uint64_t fake_os_huge_touches(void);

/* Sets whether the system has a lazy purge, as at the start. A lazy purge takes every other page, for the contract
 * allows either result for each page. */
void fake_os_know_lazy_purge(bool is_known);

/* Locks the program's memory, or unlocks it. This makes nothing resident. */
void fake_os_lock_memory(bool lock);
/* Returns the bytes that hk_os_purge_if_locked purged. */
size_t fake_os_locked_purge_bytes(void);

/* Sets 4, 16 or 64 KiB. Requires that the library has not read the page size. */
void fake_os_set_page_size(size_t bytes);

/* Sets the machine's number of memory nodes. Requires that the library has not read it. */
void fake_os_set_node_count(unsigned count);
/* Moves the calling thread, which starts on node 0. A reset by another thread leaves it there. */
void fake_os_move_to_node(unsigned node);
/* The same for its processors. They belong to no node: a thread is on a processor and on a node. */
void fake_os_set_cpu_count(unsigned count);
void fake_os_move_to_cpu(unsigned cpu);
/* Returns how often the library read the number of nodes, or where a thread is. */
uint64_t fake_os_node_questions(void);

/* The time of both clocks: here the coarse one moves with each millisecond. */
#define fake_os_start_ns ((uint64_t)1000000000)
void fake_os_set_now(uint64_t now_ns);
void fake_os_advance(uint64_t ns);
/* Lets the thread's CPU time advance by `ns` at each reading from now on; without this call the system refuses it. */
void fake_os_set_cpu_step(uint64_t ns);
/* Lets the clock advance by `ns` at each reading from now on. */
void fake_os_set_clock_step(uint64_t ns);

/* Sets the environment: an array that ends with NULL and that the test keeps. NULL itself: not set up yet. */
void fake_os_set_environment(const char *const *environment);
void fake_os_set_secure_exec(bool secure);
/* Sets what hk_os_rights returns (a hk_rights_t; at the start: settled). */
void fake_os_set_rights(int rights);
/* Returns how often hk_os_rights was called. */
uint64_t fake_os_rights_questions(void);
/* Gives this process and its children one number, as the first processes of nested pid namespaces have. 0: each its
 * own. */
void fake_os_set_process_id(uint64_t process);
void fake_os_set_process_secret(uint64_t secret);
/* Sets the limit on memory; none at the start. `use_bytes` does not follow the mapped bytes. */
void fake_os_set_memory_limit(size_t limit_bytes, size_t use_bytes, unsigned stalled_permille);
/* Sets the resident anonymous memory that hk_os_memory_limit tells; 0, not told, at the start. */
void fake_os_set_anonymous(size_t bytes);
/* Lets hk_os_memory_limit fail, as where no file can be opened. */
void fake_os_hide_memory_limit(bool hide);
/* Returns how often hk_os_memory_limit was called. */
uint64_t fake_os_memory_limit_questions(void);
/* Sets a function that runs at each such call. */
void fake_os_set_memory_limit_hook(void (*hook)(void));
/* Returns the function of the thread that was started last, which the test calls itself; NULL: no thread was
 * started. */
void (*fake_os_thread(void))(void);
/* Allows a bare thread; the default refuses it. */
void fake_os_have_bare_thread(void);
/* Returns the function of a bare thread that was started since the last call, which the test calls itself; else
 * NULL. */
void (*fake_os_bare_thread(void))(void);
/* Sets the number of threads. 0, as at the start: it is unknown. */
void fake_os_set_thread_count(unsigned count);

/* Sets the function that answers hk_os_thread_sleeps, by the number that hk_os_thread_self gave a thread. NULL, as
 * at the start: no thread sleeps. */
void fake_os_set_thread_sleeps(bool (*sleeps)(uint64_t number));

/* Sets a function that each hk_os_yield calls. NULL, as at the start: none. */
void fake_os_set_yield_hook(void (*hook)(void));

/* Makes the calling thread one that the C library has not started, for good. */
void fake_os_be_bare(void);
/* Makes the calling thread one whose exit handlers have run, for good. */
void fake_os_be_ending(void);
/* Returns for how long the last hk_os_wait_for would have waited; 0 when the word had another value. It returns at
 * once. */
uint64_t fake_os_waited_ms(void);
/* Sets a function that runs at each hk_os_wait_for that the system does not refuse. */
void fake_os_set_wait_hook(void (*hook)(void));
/* Lets hk_os_wait_for return that the system refuses every way to wait. */
void fake_os_refuse_waits(bool refuse);
/* Returns the number of calls of hk_os_wake_one. */
uint64_t fake_os_wakes(void);
void fake_os_set_memory(size_t resident_bytes, size_t peak_resident_bytes);

/* Return the text written to stderr since the reset, and the number of writes. */
const char *fake_os_stderr(void);
uint64_t fake_os_stderr_writes(void);

/* Sets a function that hk_os_abort runs first. It may leave by longjmp or an exception. */
void fake_os_set_abort_hook(void (*hook)(void));

#ifdef __cplusplus
}
#endif

#endif /* HK_TESTS_SUPPORT_FAKE_OS_H */
