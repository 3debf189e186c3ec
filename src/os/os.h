/* os/os.h - L1. The machine behind one contract. `os_linux.c`, `os_time.c`, `os_node.c`, `os_limit.c`, `os_huge.c`,
 * `os_rights.c`, `os_bare_thread.c`, `os_signal.c`, `os_sleep.c` and `os_thread.c` keep it; `tests/support/fake_os.c`
 * replaces them at link time.
 *
 * Rules for every function: it never allocates from malloc, takes no lock of ours, and leaves errno as it found it.
 * Sizes are in bytes. Ranges are whole OS pages unless a function says otherwise.
 */
#ifndef HK_OS_OS_H
#define HK_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The OS page size: a power of two, 4 KiB to 64 KiB, read once from the system (4, 16 and 64 KiB occur). */
size_t hk_os_page_size(void);

/* A new private, readable, writable, zero range of `bytes`, its start aligned to `alignment` (a power of two, at least
 * a page). Nothing is resident until touched. NULL when the system refuses. */
void *hk_os_reserve(size_t bytes, size_t alignment);

/* Gives a range back for good. False when the system refuses (it can: splitting a mapping needs a new one): the range
 * is then still mapped with its contents, and still the caller's. */
bool hk_os_unmap(void *start, size_t bytes);

/* Drops a range's contents but keeps the addresses: it reads as zero afterwards and is not resident until touched.
 * False when the system refuses: contents are then unspecified, the range stays usable. */
bool hk_os_purge(void *start, size_t bytes);

/* Purges a range, one mapping of zero memory, that the system has made resident because the program locks its memory
 * (mlockall). True when it was such a range: it stays locked, and each page becomes resident when it is touched. */
bool hk_os_purge_if_locked(void *start, size_t bytes);

/* What became of a range that was to be purged lazily. */
typedef enum {
  hk_os_purge_refused, /* as where hk_os_purge says false */
  hk_os_purge_lazy, /* each page reads as it did or as zero, and may turn zero at any moment until it is written to */
  hk_os_purge_done, /* as hk_os_purge, for a system that has no lazy way, or not for this range */
} hk_os_purge_t;

/* Lets the system drop a range's contents when it is short of memory; a page that is written to before that stays. */
hk_os_purge_t hk_os_purge_lazily(void *start, size_t bytes);

/* Makes a range resident as a write to each of its pages would, in one call; contents stay. False when the system
 * refuses, as where it knows no such call: a part may be resident then, and the rest becomes so when it is touched. */
bool hk_os_prefault(void *start, size_t bytes);

/* Changes a range's length from `old_bytes` to `new_bytes` where it stands: what stays keeps its contents, what is new
 * is zero. False when the system refuses: the range is then unchanged. */
bool hk_os_resize(void *start, size_t old_bytes, size_t new_bytes);

/* Moves a range's pages onto `target`, a range of `new_bytes` that the caller has, whose contents are lost; what is
 * longer reads as zero, what is shorter is dropped. The old addresses are the system's again. False when the system
 * refuses, as it does for a range that lies in several mappings: both ranges are then unchanged. */
bool hk_os_move(void *start, size_t old_bytes, void *target, size_t new_bytes);

/* Marks a range so that the child of fork (not of vfork) finds it all zero. False where the kernel cannot. */
bool hk_os_wipe_on_fork(void *start, size_t bytes);

/* Writes all of `text` to file descriptor 2; a failure is ignored: there is nowhere left to report it. */
void hk_os_write_stderr(const char *text, size_t bytes);

/* From here on hk_os_write_stderr writes to what file descriptor 2 is now, even when the program has closed it (many do
 * before they exit), and to nothing else: not to a file of the program's that was given the same number since. */
void hk_os_keep_stderr(void);

/* Ends the process with SIGABRT. */
HK_NORETURN void hk_os_abort(void);

/* Monotonic time in nanoseconds: not for every block. */
uint64_t hk_os_now_ns(void);

/* Monotonic time in milliseconds, as of the last tick of the kernel's timer: some milliseconds old, and no system call
 * where the kernel offers a way without. */
uint64_t hk_os_coarse_ms(void);

/* Milliseconds since 1970, as the system's clock has it. */
uint64_t hk_os_unix_ms(void);

/* 64 unpredictable bits, chosen by the kernel at exec: the same at each call in a process and in its fork children. */
uint64_t hk_os_process_secret(void);

/* The environment's "NAME=value" texts, ended by NULL; NULL itself while the C library has not set it up. */
const char *const *hk_os_environment(void);

/* This process's number; a child of fork has another. */
uint64_t hk_os_process_id(void);

/* True in a program that runs with more rights than its caller (setuid, file capabilities): the environment must then
 * be ignored. */
bool hk_os_is_secure_exec(void);

/* Blocks while `*word == expected`; may return early for no reason. Where the system refuses such a wait, the thread
 * sleeps a little, or yields the processor: it never returns at once while the word stays the same. */
void hk_os_wait(const uint32_t *word, uint32_t expected);

/* The same, but for `timeout_ms` at the most. Where the system refuses such a wait, the thread sleeps by the clock, and
 * looks at the word now and then. False when the system refuses that too: no time has passed. */
bool hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms);

/* Lets about `ms` milliseconds pass; may return early for no reason. False when the system refuses: no time has
 * passed. */
HK_INLINE bool hk_os_pause(uint64_t ms) {
  static const uint32_t never_woken = 0;
  return hk_os_wait_for(&never_woken, 0, ms);
}

/* Wakes one thread that is blocked on `word`. */
void hk_os_wake_one(const uint32_t *word);

/* This process's resident memory now and its highest so far, in bytes; 0 where the system cannot say. */
typedef struct {
  size_t resident_bytes;
  size_t peak_resident_bytes;
} hk_os_memory_t;
hk_os_memory_t hk_os_memory(void);

/* How many mappings this process has, of at most vm.max_map_count; 0 where the system cannot say. Reads them all: not
 * often. */
size_t hk_os_mapping_count(void);

/* A limit on the memory of this process, or of several together (a control group's). */
typedef struct {
  size_t limit_bytes;        /* 0: there is none */
  size_t use_bytes;          /* of all that it counts, without contents of files that would go first */
  unsigned stalled_permille; /* so much of the last seconds some task waited for memory; 0 where nobody says */
} hk_os_memory_limit_t;

/* Of the limits there are, the one that leaves the least room now. Several system calls: now and then, and under no
 * lock. Limits are looked for in the first call; what has none then is not looked at again. False when it cannot be
 * told now. */
bool hk_os_memory_limit(hk_os_memory_limit_t *limit);

/* Where the system makes pages of 2 MiB (huge pages) of a program's memory. */
typedef enum {
  hk_os_huge_never,
  hk_os_huge_on_request, /* where a program asks for them */
  hk_os_huge_everywhere, /* where none forbids it */
} hk_os_huge_t;

/* As it was when it was first asked for, which takes some system calls. Never where nobody can say, or
 * where huge pages have another size. */
hk_os_huge_t hk_os_huge_setting(void);

/* Asks for huge pages in a range, or forbids them, from now on: of memory that is touched later. Contents stay, and all
 * that the system does is advice that it may refuse: false. */
bool hk_os_huge_allow(void *start, size_t bytes, bool allowed);

/* Keeps memory of which a little is touched, here and there, in small pages also where the system makes huge ones
 * everywhere: otherwise each touch there makes 2 MiB resident. As much of the range as is whole pages. */
void hk_os_huge_keep_small(void *start, size_t bytes);

/* A new range, as hk_os_reserve, that is kept in small pages: for records of our own. */
void *hk_os_reserve_small(size_t bytes, size_t alignment);

/* The same, but it can only be read, and reads as zero, until hk_os_allow_writes. What cannot be written to is no data
 * for RLIMIT_DATA: this is for what is read everywhere and written to here and there. */
void *hk_os_reserve_readable(size_t bytes, size_t alignment);

/* Makes a range readable and writable that was only readable; one that is both stays so. False when the system refuses:
 * a part may be writable then. */
bool hk_os_allow_writes(void *start, size_t bytes);

/* Makes memory readable only of which nothing was written to: as much of the range as is whole pages. The system may
 * refuse, and all of it stays writable. */
void hk_os_forbid_writes(void *start, size_t bytes);

/* Makes huge pages of a range of whole 2 MiB at once, of what is not resident too. False when the system refuses:
 * nothing of the contents has changed, and a part may have become huge. How much CPU the thread had of it, in ns. */
bool hk_os_huge_collapse(void *start, size_t bytes, uint64_t *cpu_ns);

/* Makes the page at `start`, which is the caller's alone, as a program's first write there would, without a change of
 * its contents. How much CPU the thread had of it, in ns. */
uint64_t hk_os_huge_touch(void *start);

/* How much of a range is resident. 0 where the system does not say, as when a part is not mapped. */
size_t hk_os_resident_bytes(void *start, size_t bytes);

/* Of each page of a range, a byte each, whether it is resident: 1 or 0. False where the system does not say, as when a
 * part is not mapped. */
bool hk_os_resident_pages(void *start, size_t bytes, unsigned char *is_resident);

/* How many memory nodes threads can be on, counted from 0: at least 1. To be asked once (os/node.h does): a node that
 * is there later is not in it. */
unsigned hk_os_node_count(void);

/* The node of the processor that the calling thread is on. No system call where the kernel offers a way without. */
unsigned hk_os_current_node(void);

/* Starts a thread that runs `run` and is gone when that returns; nobody waits for it. It has a small stack and the name
 * (of less than 16 characters), and handles no signals but those it brings upon itself. False when the system refuses.
 * The C library may allocate inside, and may take locks of its own: not from inside a free, which the C library may
 * call while it holds them. */
bool hk_os_thread_start(const char *name, void (*run)(void));

/* How many threads the process has, without the bare one; one that has ended but was the first counts as long as there
 * are others. 0 where it cannot be told. */
unsigned hk_os_thread_count(void);

/* True: the caller may start the bare thread, of which a process has one at the most, or go on as that. False: there is
 * one, or about to be. A child of fork has none. From signal handlers too. */
bool hk_os_bare_thread_claim(void);
bool hk_os_bare_thread_is_claimed(void);
void hk_os_bare_thread_give_up(void);

/* Starts a thread that the C library knows nothing of; from a signal handler too, and from inside the allocator. It
 * runs `run`, for which it has a stack of HK_OS_BARE_STACK_BYTES, thread-local memory of its own that is zero, whatever
 * the initializers say, no signals as a thread of hk_os_thread_start, and the rights of the thread that starts it, for
 * good. `run` must call nothing of the C library that could need a real thread. When it returns, nothing is left. False
 * when the system refuses. */
#define HK_OS_BARE_STACK_BYTES ((size_t)256 * 1024)
bool hk_os_bare_thread_start(const char *name, void (*run)(void));

/* The rights of the calling thread (users, groups, capabilities, no_new_privs, seccomp filters) beside those of the
 * process's first thread. */
typedef enum {
  hk_rights_same,
  hk_rights_settled,  /* the same, and the first thread has none to give up that could be seen */
  hk_rights_differ,   /* the first thread has other ones */
  hk_rights_confined, /* the first thread is under a seccomp filter that the caller is not under */
  hk_rights_unknown,
} hk_rights_t;

/* For a thread of ours, now and then. `was_same`: an answer before was so, or the first thread has made the caller. The
 * caller gives up what cannot be compared. Reads two files; where they cannot be opened, it makes some system calls. */
hk_rights_t hk_os_rights(bool was_same);

/* Why a signal is not taken. */
typedef enum { hk_os_signal_taken, hk_os_signal_in_use, hk_os_signal_refused } hk_os_signal_t;

/* From now on `hook` runs where the signal arrives, inside its handler: unless the program had something in mind for it
 * before. With `from_tool_alone` only a signal that the command line tool sent is one, and others are nothing. The
 * program may take the signal back, as it would from anybody. For one signal of each kind. */
hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void));

/* The calling thread is there for what the command line tool sends by a signal that was taken for it, where all others
 * may block it. What others send goes to the process, as if this thread did not listen, and it listens no longer. */
void hk_os_signal_listen(void);

/* Sends it from here to the process's first thread. */
void hk_os_signal_first_thread(void);

/* Arranges that `hook` runs in each thread that called hk_os_thread_exit_arm, when that thread ends. Called once,
 * outside all locks. False when the system has no room for it. The C library may allocate inside. */
bool hk_os_thread_exit_init(void (*hook)(void));

/* Arms the hook for the calling thread; called again from inside the hook it makes the hook run once more, later, up to
 * three times. False when there is no hook yet, or the system refuses. The C library may allocate inside. */
bool hk_os_thread_exit_arm(void);

/* Whether the C library has made the calling thread, and so runs the hook when the thread ends. It has not made a
 * thread of a bare clone. */
bool hk_os_thread_has_end(void);

/* Whether the hook may have run for the last time, although the calling thread still frees: true as well where that
 * cannot be told. Of a thread that the C library has made. */
bool hk_os_thread_is_ending(void);

/* A thread that the C library has made, for others to look at. */
typedef struct {
  uint64_t number;     /* the kernel's; 0: not known */
  uintptr_t stack_top; /* above all frames on the stack that the thread began with */
} hk_os_thread_t;

/* The calling thread. No system call. */
hk_os_thread_t hk_os_thread_self(void);

/* Whether the thread sleeps outside the library at some moment during the call: in a system call of the program's, on
 * the stack that it began with, and with no signal handler under way on that. From that moment on it sees what the
 * caller wrote before (the kernel's lock orders both). Opens a file. False where it cannot be told. */
bool hk_os_thread_sleeps(const hk_os_thread_t *thread);

/* Arranges that `child` runs in the child of fork. The C library may allocate inside. */
void hk_os_at_fork(void (*child)(void));

HK_C_END

#endif /* HK_OS_OS_H */
