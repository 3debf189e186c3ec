/* os/os.h - L1. The contract between the library and the operating system. Each section names the file that implements
 * it on Linux; `tests/support/fake_os*.c` replace these files at link time.
 *
 * No function allocates from malloc, takes a lock of the library, or changes errno. Sizes are in bytes. Ranges are
 * whole OS pages unless a function says otherwise.
 */
#ifndef HK_OS_OS_H
#define HK_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* ---- The process: os_process.c. */

/* Returns the OS page size: a power of two, 4 KiB to 64 KiB, read once from the system (4, 16 and 64 KiB occur). */
size_t hk_os_page_size(void);

/* Returns where the kernel mapped its functions (os/vdso.h), read once from the system; 0: nowhere. */
uintptr_t hk_os_vdso(void);

/* Returns 64 unpredictable bits, chosen by the kernel at exec: the same at each call in a process and in its children
 * by fork. */
uint64_t hk_os_process_secret(void);

/* Returns the environment's "NAME=value" texts, ended by NULL; NULL itself while the C library has not set it up. */
const char *const *hk_os_environment(void);

/* Returns true in a program that runs with more rights than its caller (setuid, file capabilities): the library must
 * then ignore the environment. */
bool hk_os_is_secure_exec(void);

/* Returns this process's number; a child of fork has another one. */
uint64_t hk_os_process_id(void);

/* Notes the number of a child of fork, whose only thread calls this, where the sandbox may permit no query: the C
 * library has recorded the number. */
void hk_os_process_id_after_fork(void);

/* ---- Ranges of memory: os_linux.c. */

/* Maps a new private, readable, writable, zero range of `bytes`. Its start is aligned to `alignment`, a power of two of
 * at least a page. No page is resident until touched. Returns NULL when the system refuses. */
void *hk_os_reserve(size_t bytes, size_t alignment);

/* Unmaps a range. Returns false when the system refuses, as it can when a mapping has to be split: the range is then
 * still mapped with its contents, and the caller still owns it. */
bool hk_os_unmap(void *start, size_t bytes);

/* Changes a range's length in place from `old_bytes` to `new_bytes`. The common part keeps its contents, and a new part
 * is zero. Returns false when the system refuses: the range is then unchanged. */
bool hk_os_resize(void *start, size_t old_bytes, size_t new_bytes);

/* Moves a range's pages onto `target`, a range of `new_bytes` that the caller owns, whose contents are lost. A longer
 * target reads as zero behind the old contents; a shorter one drops the rest. The old addresses become unmapped.
 * Returns false when the system refuses, as it does for a range that lies in several mappings: both ranges are then
 * unchanged. */
bool hk_os_move(void *start, size_t old_bytes, void *target, size_t new_bytes);

/* Marks a range so that the child of fork (not of vfork) finds it all zero. Returns false where the kernel cannot do
 * so. */
bool hk_os_wipe_on_fork(void *start, size_t bytes);

/* ---- Access to a range: os_linux.c. */

/* Maps a range as hk_os_reserve_small that reads as zero and cannot be written to until hk_os_allow_writes. RLIMIT_DATA
 * does not count memory that cannot be written to. For tables that are read everywhere and written to in few places. */
void *hk_os_reserve_readable(size_t bytes, size_t alignment);

/* hk_os_reserve for addresses that cannot be accessed until hk_os_allow_writes. */
void *hk_os_reserve_inaccessible(size_t bytes, size_t alignment);

/* Makes a range readable and writable, whatever access to it was allowed before. Returns false when the system refuses:
 * a part may be writable then. */
bool hk_os_allow_writes(void *start, size_t bytes);

/* Makes the whole pages of a range readable alone. Requires that the range was not written to. When the system refuses,
 * the range stays writable. */
void hk_os_forbid_writes(void *start, size_t bytes);

/* Forbids each access to a range, which keeps its memory, until hk_os_allow_writes. Returns false when the system
 * refuses: a part may be inaccessible then. */
bool hk_os_suspend_access(void *start, size_t bytes);

/* Gives a range's memory back and forbids each access to its addresses, which stay the caller's. Returns false when the
 * system refuses: the range is then as it was. */
bool hk_os_purge_and_forbid(void *start, size_t bytes);

/* ---- Purging and prefaulting: os_linux.c. */

/* Purges a range but keeps its addresses: it reads as zero afterwards and is not resident until touched. Returns false
 * when the system refuses: the contents are then unspecified and the range stays usable. */
bool hk_os_purge(void *start, size_t bytes);

/* Purges a range of zero memory, one mapping, if the system has made it resident because the program locks its memory
 * (mlockall). Returns true when it was such a range: it stays locked, and each page becomes resident when it is
 * touched. */
bool hk_os_purge_if_locked(void *start, size_t bytes);

/* The result of a lazy purge. */
typedef enum {
  hk_os_purge_refused, /* as where hk_os_purge returns false */
  /* each page reads as it did or as zero, and may turn zero at any moment until it is written to */
  hk_os_purge_lazy,
  hk_os_purge_done, /* as hk_os_purge: the system has no lazy way, or not for this range */
} hk_os_purge_t;

/* Lets the system drop a range's contents when it is short of memory. A page that is written to before that stays. */
hk_os_purge_t hk_os_purge_lazily(void *start, size_t bytes);

/* Makes a range resident in one call, as a write to each of its pages would; the contents stay. Returns false when the
 * system refuses or does not have the call: a part may be resident then, and the rest becomes so when it is touched. */
bool hk_os_prefault(void *start, size_t bytes);

/* ---- Huge pages: os_huge.c. */

/* Where the system makes pages of 2 MiB (huge pages) of a program's memory. */
typedef enum {
  hk_os_huge_never,
  hk_os_huge_on_request, /* where a program asks for huge pages */
  hk_os_huge_everywhere, /* where no program forbids huge pages */
} hk_os_huge_t;

/* Returns the setting that the first call read, by some system calls. Returns hk_os_huge_never where it is unknown or
 * huge pages have another size. */
hk_os_huge_t hk_os_huge_setting(void);

/* Asks for huge pages in a range, or forbids them, for memory that is touched from now on. The contents stay. Returns
 * false when the system refuses this advice. */
bool hk_os_huge_advise(void *start, size_t bytes, bool is_wanted);

/* Forbids huge pages in memory that is touched sparsely, where the system makes huge pages everywhere: otherwise each
 * touch there makes 2 MiB resident. Covers the whole pages of the range. */
void hk_os_huge_keep_small(void *start, size_t bytes);

/* Maps a range as hk_os_reserve and keeps it in small pages. For records. */
void *hk_os_reserve_small(size_t bytes, size_t alignment);

/* Makes huge pages at once of a range of whole 2 MiB, also of its pages that are not resident. Returns false when the
 * system refuses: the contents have not changed, and a part may have become huge. `*cpu_ns` is the thread's CPU time
 * for it, in ns; 0 where it is unknown. */
bool hk_os_huge_collapse(void *start, size_t bytes, uint64_t *cpu_ns);

/* Makes the page at `start` resident, as a program's first write would, without a change of its contents. Requires that
 * the caller alone uses the page. Returns the thread's CPU time for it, in ns; 0 where it is unknown. */
uint64_t hk_os_huge_touch(void *start);

/* ---- Resident memory, and the number of mappings: os_resident.c. */

/* This process's resident memory now and its highest so far, in bytes; 0 where the system does not tell. */
typedef struct {
  size_t resident_bytes;
  size_t peak_resident_bytes;
} hk_os_memory_t;
hk_os_memory_t hk_os_memory(void);

/* Returns hk_os_memory's peak by one system call, in bytes, but with that of the program before exec; 0 where the
 * system does not tell. */
size_t hk_os_peak_resident_bytes(void);

/* Returns the resident bytes of a range; 0 where the system does not tell, as when a part is not mapped. */
size_t hk_os_resident_bytes(void *start, size_t bytes);

/* Writes a byte for each page of a range: 1 when it is resident, else 0. Returns false where the system does not tell,
 * as when a part is not mapped. */
bool hk_os_resident_pages(void *start, size_t bytes, unsigned char *is_resident);

/* Returns the number of mappings of this process, of at most hk_os_mapping_limit; 0 where the system does not tell.
 * Slow: it reads them all. */
size_t hk_os_mapping_count(void);

/* The kernel's default for vm.max_map_count (DEFAULT_MAX_MAP_COUNT). */
#define HK_OS_MAPPING_LIMIT 65530

/* Returns vm.max_map_count, the number of mappings that the system allows a process; HK_OS_MAPPING_LIMIT where it does
 * not tell. */
size_t hk_os_mapping_limit(void);

/* ---- Limits on memory: os_limit.c. */

/* A limit on the memory of this process, or of several together (a control group's). */
typedef struct {
  size_t limit_bytes; /* 0: no limit */
  /* of all that the limit counts; near the limit without inactive file pages */
  size_t use_bytes;
  /* how much of the last ten seconds some task waited for memory; 0 where the system does not tell */
  unsigned stalled_permille;
  size_t anonymous_bytes; /* resident in this process and of no file; 0 where the system does not tell */
} hk_os_memory_limit_t;

/* Reads the limit that leaves the least room now. Makes several system calls, so it is called rarely and without a
 * lock. The first call searches the limits; a group without a limit then is not read again. Returns false when the
 * limits cannot be read now. */
bool hk_os_memory_limit(hk_os_memory_limit_t *limit);

/* Returns whether the process has a limit on what it may map (RLIMIT_AS, RLIMIT_DATA), or the system does not tell. Two
 * system calls. */
bool hk_os_limits_addresses(void);

/* ---- Messages: os_stderr.c, and the end of the process: os_linux.c. */

/* Notes at the start which file is at descriptor 2, or that it is closed. Messages then go nowhere: a file that the
 * program opens by this number is its own. */
void hk_os_note_stderr(void);

/* Keeps the present file of descriptor 2 for hk_os_write_stderr, even when the program closes the descriptor (many do
 * before they exit). From then on messages go to that file alone, not to another file that gets the number 2. */
void hk_os_keep_stderr(void);

/* Writes all of `text` to file descriptor 2, unless a socket is there that hk_os_note_stderr did not see: a connection
 * of the program's. Ignores a failure, which could not be reported anywhere. */
void hk_os_write_stderr(const char *text, size_t bytes);

/* Ends the process with SIGABRT. */
HK_NORETURN void hk_os_abort(void);

/* ---- Clocks: os_time.c. */

/* Returns monotonic time in nanoseconds. Too slow to be read for each block. */
uint64_t hk_os_now_ns(void);

/* Returns monotonic time in milliseconds, as of the last tick of the kernel's timer: some milliseconds old. No system
 * call where the kernel offers a way without. */
uint64_t hk_os_coarse_ms(void);

/* Returns the calling thread's CPU time in nanoseconds, by a system call. 0 in a sandbox, and where the system refuses
 * the call. */
uint64_t hk_os_thread_cpu_ns(void);

/* Returns the milliseconds since 1970 by the system's clock, as of the last tick of the kernel's timer. */
uint64_t hk_os_unix_ms(void);

/* ---- Waiting: os_time.c. */

/* Blocks while `*word == expected`; may return early for no reason. Where the system refuses such a wait, the thread
 * sleeps shortly or yields the processor: it never returns at once while the word stays the same. */
void hk_os_wait(const uint32_t *word, uint32_t expected);

/* Blocks as hk_os_wait, for `timeout_ms` at most. Where the system refuses such a wait, the thread sleeps by the clock
 * and reads the word now and then. Returns false when the system refuses that too: no time has passed. */
bool hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms);

/* Pauses for about `ms` milliseconds; may return early for no reason. Returns false when the system refuses: no time
 * has passed. */
HK_INLINE bool hk_os_pause(uint64_t ms) {
  static const uint32_t never_woken = 0;
  return hk_os_wait_for(&never_woken, 0, ms);
}

/* Lets other threads that can run do so first. Returns at once where there is none, or where the system refuses. */
void hk_os_yield(void);

/* Wakes one thread that is blocked on `word`. */
void hk_os_wake_one(const uint32_t *word);

/* ---- Memory nodes and processors: os_node.c. */

/* Returns the number of memory nodes that threads can run on, counted from 0: at least 1. Called once (by os/node.h): a
 * node that is added later is not counted. */
unsigned hk_os_node_count(void);

/* Returns how many processors the calling thread may run on: at least 1, and 1 where the system does not tell. */
unsigned hk_os_cpu_count(void);

/* A processor and its memory node, as the system numbers them. */
typedef struct {
  unsigned cpu, node;
} hk_os_place_t;

/* Returns where the calling thread is. No system call where the kernel offers a way without. */
hk_os_place_t hk_os_current_place(void);

/* ---- Threads of the library: os_thread.c, and the bare one: os_bare_thread.c. */

/* Starts a detached thread that runs `run`. It has a small stack and the name (of less than 16 characters), and blocks
 * all signals but those that it causes itself and the C library's. Returns false when the system refuses. The C library
 * may allocate inside and take locks of its own. So the call is not allowed inside a free, which the C library may call
 * while it holds them. */
bool hk_os_thread_start(const char *name, void (*run)(void));

/* Returns the number of the process's threads, without the bare one; 0 where that number is unknown. The first thread
 * counts after its end while others run. */
unsigned hk_os_thread_count(void);

/* Claim the bare thread, of which a process has one at most. A caller that gets true may start it, or continue as it.
 * One that gets false may not: the thread runs already, or another thread has the claim. A child of fork has none. Safe
 * in signal handlers. */
bool hk_os_bare_thread_claim(void);
bool hk_os_bare_thread_is_claimed(void);
void hk_os_bare_thread_give_up(void);

/* Starts a thread that the C library does not know. Safe in signal handlers and inside the allocator. `run` has a stack
 * of HK_OS_BARE_STACK_BYTES, thread-local memory of its own that is zero in spite of initializers, and for good the
 * rights of the thread that starts it. All signals are blocked but those that it causes itself. `run` must not call
 * functions of the C library that need a thread of the library's. When it returns, the thread leaves no memory behind.
 * Returns false when the system refuses. */
#define HK_OS_BARE_STACK_BYTES ((size_t)256 * 1024)
bool hk_os_bare_thread_start(const char *name, void (*run)(void));

/* ---- The rights of the library's threads: os_rights.c. */

/* The rights of the calling thread (users, groups, capabilities, no_new_privs, seccomp filters) beside those of the
 * process's first thread. */
typedef enum {
  hk_rights_same,
  hk_rights_settled,  /* the same, and the first thread has no visible ones left to give up */
  hk_rights_differ,   /* the first thread has other ones */
  hk_rights_confined, /* the first thread is under a seccomp filter that the caller is not under */
  hk_rights_unknown,
} hk_rights_t;

/* Compares the rights of one of the library's threads, which calls this regularly. `was_same`: an earlier call found
 * them the same, or the first thread made the caller. The caller gives up what cannot be compared. Reads two files;
 * where they cannot be opened, makes some system calls. */
hk_rights_t hk_os_rights(bool was_same);

/* ---- Signals: os_signal.c. */

/* The result of taking a signal. */
typedef enum {
  hk_os_signal_taken,
  hk_os_signal_in_use,
  hk_os_signal_refused,
  hk_os_signal_unfit, /* a fault or the C library uses it, or it can have no handler */
  hk_os_signal_unsafe /* a filter may end the process for the attempt */
} hk_os_signal_t;

/* Takes a signal: from now on `hook` runs in its handler, in the thread that the signal reaches. Returns
 * hk_os_signal_in_use when the program has a handler for it or ignores it. With `from_tool_alone` only signals that the
 * command line tool sent count. The program may replace the handler, as any other. There is one signal with
 * `from_tool_alone` and one without. */
hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void));

/* Unblocks the tool's signal in the calling thread, which then receives it where all of the program's threads block it.
 * A signal of another sender is sent to the process again, as if this thread did not listen, and the thread stops
 * listening. */
void hk_os_signal_listen(void);

/* Ignores the command line tool's signal, if its handler is still ours, or takes it again. For a filter that is about
 * to be installed: it may end the process for the system call by which a handler returns. */
void hk_os_signal_ignore(bool is_ignored);

/* ---- Hooks at ends of threads and at forks: os_linux.c; cancellation: os_thread.c. */

/* Makes `hook` run at the end of each thread that has called hk_os_thread_exit_arm. Called once, outside all locks.
 * Returns false when the system has no room for it. The C library may allocate inside. */
bool hk_os_thread_exit_init(void (*hook)(void));

/* Arms the hook for the calling thread. Called from inside the hook, it makes the hook run once more later, up to three
 * times. Returns false when there is no hook yet or the system refuses. The C library may allocate inside. */
bool hk_os_thread_exit_arm(void);

/* Returns whether the C library has made the calling thread, and so runs the hook at its end. It has not made a thread
 * of a bare clone. */
bool hk_os_thread_is_of_c_library(void);

/* Returns whether the hook may have run for the last time although the calling thread still frees; true also where this
 * is unknown. Requires a thread that the C library has made. */
bool hk_os_thread_is_ending(void);

/* Defers asynchronous cancellation of the calling thread, and returns the type that hk_os_cancel_restore takes back.
 * Between the two calls no other thread can end the calling one. A cancellation that came meanwhile acts in
 * hk_os_cancel_restore. */
int hk_os_cancel_defer(void);
void hk_os_cancel_restore(int type);

/* Makes `child` run in the child of each fork. The C library may allocate inside. */
void hk_os_at_fork(void (*child)(void));

/* ---- Threads of the program, as others see them: os_sleep.c. */

/* A thread that the C library has made, as other threads see it. */
typedef struct {
  uint64_t number;     /* the kernel's number; 0: unknown */
  uintptr_t stack_top; /* above all frames on the thread's first stack */
} hk_os_thread_t;

/* Returns the calling thread. No system call. */
hk_os_thread_t hk_os_thread_self(void);

/* Returns whether the thread sleeps outside the library at some moment during the call: in a system call of the
 * program, on its first stack, and without a signal handler under way on that stack. From that moment on the thread
 * sees what the caller wrote before, because the kernel's lock orders both. Opens a file. Returns false where this is
 * unknown. */
bool hk_os_thread_sleeps(const hk_os_thread_t *thread);

/* Returns whether the process has a thread of that number, and a variable of that thread at `address` has the value
 * `word`. Returns false where this is unknown. The variable of a thread that has ended may be gone, and its number
 * another thread's. */
bool hk_os_thread_has_word(const hk_os_thread_t *thread, const void *address, const void *word);

/* Returns whether the process has no such thread any more. What the thread has written is seen then. Returns false
 * where this is unknown, and while another thread has its number. Requires that the thread was the calling process's,
 * not its parent's that shares memory with it. */
bool hk_os_thread_has_ended(const hk_os_thread_t *thread);

HK_C_END

#endif /* HK_OS_OS_H */
