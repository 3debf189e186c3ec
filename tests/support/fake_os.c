/* The machine of fake_os.h. One mutex guards all of it; the hooks and the waiting are called without. */
#define _GNU_SOURCE 1

#include "fake_os.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

#define RANGE_MAX 16384
#define LOG_MAX 16384
#define STDERR_MAX 65536
/* What a failed purge leaves behind, so that nobody relies on the old contents. */
#define GARBAGE 0xdb

typedef struct {
  uintptr_t start;
  uintptr_t end;
} range_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* What is mapped, in no order; ranges that lie side by side are not joined. */
static range_t ranges[RANGE_MAX];
static size_t range_count;
static size_t mapped_bytes;

static const char *const no_environment[] = {NULL};

/* All that a reset sets back. */
static struct {
  uint64_t calls[fake_os_call_count];
  uint64_t failures[fake_os_call_count];
  uint64_t fail_at[fake_os_call_count]; /* 0: never */
  bool fail_all[fake_os_call_count];
  void (*hook[fake_os_call_count])(void);
  size_t mapped_limit;
  size_t peak_mapped_bytes;
  fake_os_record_t log[LOG_MAX];
  size_t log_length;
  size_t page_size;
  int huge_setting;
  _Atomic(uint64_t) huge_questions;
  unsigned node_count;
  _Atomic(uint64_t) node_questions;
  uint64_t now_ns;
  uint64_t clock_step_ns;
  const char *const *environment;
  bool is_secure_exec;
  uint64_t process_secret;
  hk_os_memory_t memory;
  hk_os_memory_limit_t memory_limit;
  bool hides_memory_limit;
  _Atomic(uint64_t) memory_limit_questions;
  void (*memory_limit_hook)(void);
  char stderr_text[STDERR_MAX];
  size_t stderr_length;
  uint64_t stderr_writes;
  void (*abort_hook)(void);
  void (*thread_run)(void);
  unsigned thread_count;
  uint64_t waited_ms;
  void (*wait_hook)(void);
  _Atomic(uint64_t) wakes;
} fake = {.page_size = 4096,
          .node_count = 1,
          .now_ns = fake_os_start_ns,
          .environment = no_environment,
          .process_secret = 42};

/* Where the thread is. */
static _Thread_local unsigned current_node;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

/* ---- The contract. --------------------------------------------------------------------------------------------- */

static void broken(const char *function, const char *what, uintptr_t start, size_t bytes) {
  fprintf(stderr, "fake_os: %s: %s: 0x%zx, %zu bytes\n", function, what, (size_t)start, bytes);
  abort();
}

static void require_pages(const char *function, uintptr_t start, size_t bytes) {
  if (bytes == 0 || ((start | bytes) & (fake.page_size - 1)) != 0) broken(function, "not whole pages", start, bytes);
}

/* How many bytes of the range are mapped. Ranges never overlap. */
static size_t mapped_within(uintptr_t start, size_t bytes) {
  size_t total = 0;
  for (size_t i = 0; i < range_count; i++) {
    uintptr_t from = ranges[i].start > start ? ranges[i].start : start;
    uintptr_t to = ranges[i].end < start + bytes ? ranges[i].end : start + bytes;
    if (from < to) total += to - from;
  }
  return total;
}

static void require_mapped(const char *function, uintptr_t start, size_t bytes) {
  require_pages(function, start, bytes);
  if (mapped_within(start, bytes) != bytes) broken(function, "not all of it is mapped", start, bytes);
}

static void add_range(uintptr_t start, size_t bytes) {
  if (range_count == RANGE_MAX) broken("reserve", "more ranges than the fake can hold", start, bytes);
  ranges[range_count++] = (range_t){start, start + bytes};
  mapped_bytes += bytes;
  if (mapped_bytes > fake.peak_mapped_bytes) fake.peak_mapped_bytes = mapped_bytes;
}

static void remove_range(uintptr_t start, size_t bytes) {
  uintptr_t end = start + bytes;
  for (size_t i = 0; i < range_count;) {
    range_t old = ranges[i];
    if (old.end <= start || end <= old.start) {
      i++;
      continue;
    }
    mapped_bytes -= old.end - old.start;
    ranges[i] = ranges[--range_count]; /* looked at next: what is added below does not meet the range */
    if (old.start < start) add_range(old.start, start - old.start);
    if (end < old.end) add_range(end, old.end - end);
  }
}

/* ---- Scripted failures and the log. ---------------------------------------------------------------------------- */

static bool is_over_limit(size_t more_bytes) {
  return fake.mapped_limit != 0 && (more_bytes > fake.mapped_limit || mapped_bytes > fake.mapped_limit - more_bytes);
}

/* Before the call takes its lock: the hook may make calls too. */
static void announce(fake_os_call_t call) {
  if (fake.hook[call] != NULL) fake.hook[call]();
}

/* Counts the call. False when it is to fail. */
static bool begin(fake_os_call_t call) {
  fake.calls[call]++;
  return !fake.fail_all[call] && fake.calls[call] != fake.fail_at[call];
}

static bool end(fake_os_record_t record) {
  if (!record.succeeded) fake.failures[record.call]++;
  if (fake.log_length < LOG_MAX) fake.log[fake.log_length] = record;
  fake.log_length++;
  return record.succeeded;
}

/* ---- os.h: memory. --------------------------------------------------------------------------------------------- */

size_t hk_os_page_size(void) { return fake.page_size; }

static uintptr_t map_aligned(size_t bytes, size_t alignment) {
  size_t total;
  if (__builtin_add_overflow(bytes, alignment, &total)) return 0;
  void *mapped = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  uintptr_t start = ((uintptr_t)mapped + alignment - 1) & ~(alignment - 1);
  size_t head_bytes = start - (uintptr_t)mapped;
  if (head_bytes > 0) munmap(mapped, head_bytes);
  if (alignment > head_bytes) munmap((void *)(start + bytes), alignment - head_bytes);
  return start;
}

void *hk_os_reserve(size_t bytes, size_t alignment) {
  announce(fake_os_reserve);
  lock();
  require_pages("reserve", 0, bytes);
  if (alignment < fake.page_size || (alignment & (alignment - 1)) != 0) {
    broken("reserve", "an alignment that is no power of two from a page up", 0, alignment);
  }
  fake_os_record_t record = {.call = fake_os_reserve, .bytes = bytes, .alignment = alignment};
  if (begin(fake_os_reserve) && !is_over_limit(bytes)) record.start = map_aligned(bytes, alignment);
  record.succeeded = record.start != 0;
  if (record.succeeded) add_range(record.start, bytes);
  end(record);
  unlock();
  return (void *)record.start;
}

bool hk_os_unmap(void *start, size_t bytes) {
  lock();
  require_mapped("unmap", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_unmap, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = begin(fake_os_unmap) && munmap(start, bytes) == 0;
  if (record.succeeded) remove_range((uintptr_t)start, bytes);
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

bool hk_os_purge(void *start, size_t bytes) {
  announce(fake_os_purge);
  lock();
  require_mapped("purge", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_purge, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = begin(fake_os_purge) && madvise(start, bytes, MADV_DONTNEED) == 0;
  if (!record.succeeded) {
    /* The ends are enough to be noticed, and make no large range resident. */
    memset(start, GARBAGE, fake.page_size);
    memset((char *)start + bytes - fake.page_size, GARBAGE, fake.page_size);
  }
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

bool hk_os_resize(void *start, size_t old_bytes, size_t new_bytes) {
  lock();
  uintptr_t address = (uintptr_t)start;
  require_mapped("resize", address, old_bytes);
  require_pages("resize", address, new_bytes);
  fake_os_record_t record = {.call = fake_os_resize, .start = address, .bytes = old_bytes, .new_bytes = new_bytes};
  size_t more_bytes = new_bytes > old_bytes ? new_bytes - old_bytes : 0;
  record.succeeded =
      begin(fake_os_resize) && !is_over_limit(more_bytes) && mremap(start, old_bytes, new_bytes, 0) != MAP_FAILED;
  if (record.succeeded && more_bytes > 0) add_range(address + old_bytes, more_bytes);
  if (record.succeeded && new_bytes < old_bytes) remove_range(address + new_bytes, old_bytes - new_bytes);
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

bool hk_os_move(void *start, size_t old_bytes, void *target, size_t new_bytes) {
  lock();
  require_mapped("move", (uintptr_t)start, old_bytes);
  require_mapped("move", (uintptr_t)target, new_bytes);
  if ((uintptr_t)start < (uintptr_t)target + new_bytes && (uintptr_t)target < (uintptr_t)start + old_bytes) {
    broken("move", "onto itself", (uintptr_t)target, new_bytes);
  }
  fake_os_record_t record = {.call = fake_os_move,
                             .start = (uintptr_t)start,
                             .bytes = old_bytes,
                             .new_bytes = new_bytes,
                             .target = (uintptr_t)target};
  record.succeeded =
      begin(fake_os_move) && mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) != MAP_FAILED;
  if (record.succeeded) remove_range((uintptr_t)start, old_bytes);
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

bool hk_os_wipe_on_fork(void *start, size_t bytes) {
  lock();
  require_mapped("wipe_on_fork", (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = fake_os_wipe_on_fork, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = begin(fake_os_wipe_on_fork) && madvise(start, bytes, MADV_WIPEONFORK) == 0;
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

/* ---- os.h: huge pages. What is resident is what the test has touched. ------------------------------------------ */

hk_os_huge_t hk_os_huge_setting(void) {
  fake.huge_questions++;
  return (hk_os_huge_t)fake.huge_setting;
}

static bool advise_huge(fake_os_call_t call, const char *name, void *start, size_t bytes) {
  lock();
  require_mapped(name, (uintptr_t)start, bytes);
  fake_os_record_t record = {.call = call, .start = (uintptr_t)start, .bytes = bytes};
  record.succeeded = begin(call);
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

bool hk_os_huge_allow(void *start, size_t bytes, bool allowed) {
  return advise_huge(allowed ? fake_os_huge_ask : fake_os_huge_forbid, "huge_allow", start, bytes);
}

bool hk_os_huge_collapse(void *start, size_t bytes) {
  announce(fake_os_huge_collapse);
  return advise_huge(fake_os_huge_collapse, "huge_collapse", start, bytes);
}

bool hk_os_resident_pages(void *start, size_t bytes, unsigned char *is_resident) {
  size_t system_page = (size_t)sysconf(_SC_PAGESIZE), page = hk_os_page_size();
  for (size_t i = 0; i < bytes / page; i++) is_resident[i] = 0;
  for (size_t at = 0; at < bytes; at += system_page) {
    unsigned char one = 0;
    if (mincore((char *)start + at, system_page, &one) != 0) return false;
    is_resident[at / page] |= one & 1;
  }
  return true;
}

size_t hk_os_resident_bytes(void *start, size_t bytes) {
  lock();
  require_mapped("resident_bytes", (uintptr_t)start, bytes);
  size_t resident = 0, system_page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t at = 0; at < bytes; at += system_page) {
    unsigned char is_resident = 0;
    if (mincore((char *)start + at, system_page, &is_resident) == 0 && (is_resident & 1) != 0) resident += system_page;
  }
  unlock();
  return resident;
}

/* ---- os.h: the rest. ------------------------------------------------------------------------------------------- */

void hk_os_keep_stderr(void) {}

void hk_os_write_stderr(const char *text, size_t bytes) {
  lock();
  size_t room = STDERR_MAX - 1 - fake.stderr_length;
  size_t kept = bytes < room ? bytes : room;
  memcpy(fake.stderr_text + fake.stderr_length, text, kept);
  fake.stderr_length += kept;
  fake.stderr_writes++;
  unlock();
}

void hk_os_abort(void) {
  if (fake.abort_hook != NULL) fake.abort_hook();
  fputs(fake.stderr_text, stderr); /* what a death test looks for */
  abort();
}

uint64_t hk_os_now_ns(void) {
  lock();
  uint64_t now_ns = fake.now_ns;
  fake.now_ns += fake.clock_step_ns;
  unlock();
  return now_ns;
}

uint64_t hk_os_coarse_ms(void) { return hk_os_now_ns() / 1000000; }

/* It began with 1970. */
uint64_t hk_os_unix_ms(void) { return hk_os_coarse_ms(); }

uint64_t hk_os_process_secret(void) { return fake.process_secret; }
const char *const *hk_os_environment(void) { return fake.environment; }
uint64_t hk_os_process_id(void) { return (uint64_t)getpid(); }
bool hk_os_is_secure_exec(void) { return fake.is_secure_exec; }
hk_os_memory_t hk_os_memory(void) { return fake.memory; }

size_t hk_os_mapping_count(void) { return range_count; }

bool hk_os_memory_limit(hk_os_memory_limit_t *limit) {
  fake.memory_limit_questions++;
  if (fake.memory_limit_hook != NULL) fake.memory_limit_hook();
  *limit = fake.hides_memory_limit ? (hk_os_memory_limit_t){0} : fake.memory_limit;
  return !fake.hides_memory_limit;
}

unsigned hk_os_node_count(void) {
  fake.node_questions++;
  return fake.node_count;
}

unsigned hk_os_current_node(void) {
  fake.node_questions++;
  return current_node;
}

void hk_os_wait(const uint32_t *word, uint32_t expected) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms) {
  fake.waited_ms = __atomic_load_n(word, __ATOMIC_RELAXED) == expected ? timeout_ms : 0;
  if (fake.wait_hook != NULL) fake.wait_hook();
}

bool hk_os_thread_start(const char *name, void (*run)(void)) {
  (void)name;
  announce(fake_os_thread_start);
  lock();
  fake_os_record_t record = {.call = fake_os_thread_start};
  record.succeeded = begin(fake_os_thread_start);
  if (record.succeeded) fake.thread_run = run;
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

unsigned hk_os_thread_count(void) { return fake.thread_count; }

/* There is no bare thread here, and no signal: unit tests have nobody outside who asks. */
bool hk_os_bare_thread_claim(void) { return false; }
bool hk_os_bare_thread_is_claimed(void) { return false; }
void hk_os_bare_thread_give_up(void) {}
bool hk_os_bare_thread_start(const char *name, void (*run)(void)) {
  (void)name;
  (void)run;
  return false;
}
hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void)) {
  (void)number;
  (void)from_tool_alone;
  (void)hook;
  return hk_os_signal_refused;
}
void hk_os_signal_listen(void) {}
void hk_os_signal_first_thread(void) {}

void hk_os_wake_one(const uint32_t *word) {
  fake.wakes++;
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static pthread_key_t exit_key;
static void (*exit_hook)(void);

static void run_exit_hook(void *armed) {
  (void)armed;
  exit_hook();
}

bool hk_os_thread_exit_init(void (*hook)(void)) {
  lock();
  fake_os_record_t record = {.call = fake_os_thread_exit_init};
  record.succeeded =
      begin(fake_os_thread_exit_init) && (exit_hook != NULL || pthread_key_create(&exit_key, run_exit_hook) == 0);
  if (record.succeeded) exit_hook = hook;
  bool succeeded = end(record);
  unlock();
  return succeeded;
}

void hk_os_thread_exit_arm(void) {
  if (exit_hook != NULL) pthread_setspecific(exit_key, &exit_key);
}

void hk_os_at_fork(void (*child)(void)) { pthread_atfork(NULL, NULL, child); }

/* ---- fake_os.h. ------------------------------------------------------------------------------------------------ */

void fake_os_reset(void) {
  lock();
  memset(&fake, 0, sizeof(fake));
  fake.page_size = 4096;
  fake.node_count = 1;
  fake.now_ns = fake_os_start_ns;
  fake.clock_step_ns = 0;
  fake.environment = no_environment;
  fake.process_secret = 42;
  fake.peak_mapped_bytes = mapped_bytes;
  unlock();
  current_node = 0;
}

void fake_os_fail_nth(fake_os_call_t call, uint64_t nth) {
  lock();
  fake.fail_at[call] = nth == 0 ? 0 : fake.calls[call] + nth;
  unlock();
}

void fake_os_fail_all(fake_os_call_t call, bool fail) {
  lock();
  fake.fail_all[call] = fail;
  unlock();
}

void fake_os_limit_mapped(size_t bytes) {
  lock();
  fake.mapped_limit = bytes;
  unlock();
}

uint64_t fake_os_calls(fake_os_call_t call) { return fake.calls[call]; }
uint64_t fake_os_failures(fake_os_call_t call) { return fake.failures[call]; }
size_t fake_os_log_length(void) { return fake.log_length; }
const fake_os_record_t *fake_os_log(size_t index) { return index < LOG_MAX ? &fake.log[index] : NULL; }

size_t fake_os_mapped_bytes(void) { return mapped_bytes; }
size_t fake_os_peak_mapped_bytes(void) { return fake.peak_mapped_bytes; }

bool fake_os_is_mapped(const void *start, size_t bytes) {
  lock();
  bool is_mapped = mapped_within((uintptr_t)start, bytes) == bytes;
  unlock();
  return is_mapped;
}

void fake_os_unmap_all(void) {
  lock();
  while (range_count > 0) {
    range_t last = ranges[--range_count];
    munmap((void *)last.start, last.end - last.start);
  }
  mapped_bytes = 0;
  unlock();
}

void fake_os_set_huge(int setting) { fake.huge_setting = setting; }
uint64_t fake_os_huge_questions(void) { return fake.huge_questions; }
void fake_os_set_page_size(size_t bytes) { fake.page_size = bytes; }
void fake_os_set_node_count(unsigned count) { fake.node_count = count; }
void fake_os_move_to_node(unsigned node) { current_node = node; }
uint64_t fake_os_node_questions(void) { return fake.node_questions; }
void fake_os_set_now(uint64_t now_ns) {
  lock();
  fake.now_ns = now_ns;
  unlock();
}
void fake_os_advance(uint64_t ns) {
  lock();
  fake.now_ns += ns;
  unlock();
}
void fake_os_set_clock_step(uint64_t ns) {
  lock();
  fake.clock_step_ns = ns;
  unlock();
}
void fake_os_set_hook(fake_os_call_t call, void (*hook)(void)) { fake.hook[call] = hook; }
void fake_os_set_environment(const char *const *environment) { fake.environment = environment; }
void fake_os_set_secure_exec(bool secure) { fake.is_secure_exec = secure; }
void fake_os_set_process_secret(uint64_t secret) { fake.process_secret = secret; }
void fake_os_set_memory_limit(size_t limit_bytes, size_t use_bytes, unsigned stalled_permille) {
  fake.memory_limit = (hk_os_memory_limit_t){limit_bytes, use_bytes, stalled_permille};
}
void fake_os_hide_memory_limit(bool hide) { fake.hides_memory_limit = hide; }
uint64_t fake_os_memory_limit_questions(void) { return fake.memory_limit_questions; }
void fake_os_set_memory_limit_hook(void (*hook)(void)) { fake.memory_limit_hook = hook; }
void (*fake_os_thread(void))(void) { return fake.thread_run; }
void fake_os_set_thread_count(unsigned count) { fake.thread_count = count; }
void fake_os_set_wait_hook(void (*hook)(void)) { fake.wait_hook = hook; }
uint64_t fake_os_waited_ms(void) { return fake.waited_ms; }
uint64_t fake_os_wakes(void) { return fake.wakes; }
void fake_os_set_memory(size_t resident_bytes, size_t peak_resident_bytes) {
  fake.memory = (hk_os_memory_t){resident_bytes, peak_resident_bytes};
}
const char *fake_os_stderr(void) { return fake.stderr_text; }
uint64_t fake_os_stderr_writes(void) { return fake.stderr_writes; }
void fake_os_set_abort_hook(void (*hook)(void)) { fake.abort_hook = hook; }
