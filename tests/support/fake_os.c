/* See fake_os.h. All of the machine but its memory (fake_os_memory.c) and its script (fake_os_call.c). */
#define _GNU_SOURCE 1

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_os_call.h"
#include "os/os.h"

#define STDERR_MAX 65536

static const char *const no_environment[] = {NULL};

/* The state that a reset clears. */
static struct {
  unsigned node_count, cpu_count;
  _Atomic(uint64_t) node_questions;
  uint64_t now_ns;
  uint64_t clock_step_ns;
  uint64_t cpu_ns, cpu_step_ns;
  const char *const *environment;
  bool is_secure_exec;
  uint64_t process_id; /* 0: the real one */
  hk_rights_t rights;
  uint64_t rights_questions;
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
  bool (*thread_sleeps)(uint64_t number);
  bool has_bare_thread, is_bare_thread_claimed;
  void (*bare_thread_run)(void);
  uint64_t waited_ms;
  bool refuses_waits;
  void (*wait_hook)(void);
  void (*yield_hook)(void);
  _Atomic(uint64_t) wakes;
} fake = {.node_count = 1,
          .cpu_count = 1,
          .now_ns = fake_os_start_ns,
          .environment = no_environment,
          .process_secret = 42,
          .rights = hk_rights_settled};

/* The thread's memory node and processor. */
static _Thread_local unsigned current_node, current_cpu;

static _Thread_local bool is_bare, is_ending;

/* ---- os.h. ------------------------------------------------------------------------------------------------------ */

void hk_os_note_stderr(void) {}

void hk_os_keep_stderr(void) {}

void hk_os_write_stderr(const char *text, size_t bytes) {
  fake_os_lock();
  size_t room = STDERR_MAX - 1 - fake.stderr_length;
  size_t kept = bytes < room ? bytes : room;
  memcpy(fake.stderr_text + fake.stderr_length, text, kept);
  fake.stderr_length += kept;
  fake.stderr_writes++;
  fake_os_unlock();
}

void hk_os_abort(void) {
  if (fake.abort_hook != NULL) fake.abort_hook();
  fputs(fake.stderr_text, stderr); /* for death tests */
  abort();
}

uint64_t hk_os_now_ns(void) {
  fake_os_lock();
  uint64_t now_ns = fake.now_ns;
  fake.now_ns += fake.clock_step_ns;
  fake_os_unlock();
  return now_ns;
}

uint64_t hk_os_thread_cpu_ns(void) { return fake.cpu_step_ns != 0 ? (fake.cpu_ns += fake.cpu_step_ns) : 0; }

uint64_t hk_os_coarse_ms(void) { return hk_os_now_ns() / 1000000; }

/* The machine's clock began in 1970. */
uint64_t hk_os_unix_ms(void) { return hk_os_coarse_ms(); }

uintptr_t hk_os_vdso(void) { return 0; }
uint64_t hk_os_process_secret(void) { return fake.process_secret; }
const char *const *hk_os_environment(void) { return fake.environment; }
uint64_t hk_os_process_id(void) { return fake.process_id != 0 ? fake.process_id : (uint64_t)getpid(); }
void hk_os_process_id_after_fork(void) {}
hk_rights_t hk_os_rights(bool was_same) {
  (void)was_same;
  fake.rights_questions++;
  return fake.rights;
}
bool hk_os_is_secure_exec(void) { return fake.is_secure_exec; }
hk_os_memory_t hk_os_memory(void) { return fake.memory; }
size_t hk_os_peak_resident_bytes(void) { return fake.memory.peak_resident_bytes; }

bool hk_os_memory_limit(hk_os_memory_limit_t *limit) {
  fake.memory_limit_questions++;
  if (fake.memory_limit_hook != NULL) fake.memory_limit_hook();
  bool is_hidden = fake.hides_memory_limit || !fake_os_grant(fake_os_memory_limit);
  *limit = is_hidden ? (hk_os_memory_limit_t){0} : fake.memory_limit;
  return !is_hidden;
}

unsigned hk_os_node_count(void) {
  fake.node_questions++;
  return fake.node_count;
}

unsigned hk_os_cpu_count(void) { return fake.cpu_count; }

hk_os_place_t hk_os_current_place(void) {
  fake.node_questions++;
  return (hk_os_place_t){.cpu = current_cpu, .node = current_node};
}

void hk_os_yield(void) {
  if (fake.yield_hook != NULL) fake.yield_hook();
  sched_yield();
}

void hk_os_wait(const uint32_t *word, uint32_t expected) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

bool hk_os_wait_for(const uint32_t *word, uint32_t expected, uint64_t timeout_ms) {
  fake.waited_ms = __atomic_load_n(word, __ATOMIC_RELAXED) == expected ? timeout_ms : 0;
  if (fake.refuses_waits) return false;
  if (fake.wait_hook != NULL) fake.wait_hook();
  return true;
}

bool hk_os_thread_start(const char *name, void (*run)(void)) {
  (void)name;
  fake_os_announce(fake_os_thread_start);
  fake_os_lock();
  fake_os_record_t record = {.call = fake_os_thread_start};
  record.succeeded = fake_os_begin(fake_os_thread_start);
  if (record.succeeded) fake.thread_run = run;
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

unsigned hk_os_thread_count(void) { return fake.thread_count; }
bool hk_os_thread_is_of_c_library(void) { return !is_bare; }
bool hk_os_thread_is_ending(void) { return is_ending; }

bool hk_os_bare_thread_claim(void) {
  if (!fake.has_bare_thread || fake.is_bare_thread_claimed) return false;
  return fake.is_bare_thread_claimed = true;
}
bool hk_os_bare_thread_is_claimed(void) { return fake.is_bare_thread_claimed; }
void hk_os_bare_thread_give_up(void) { fake.is_bare_thread_claimed = false; }
bool hk_os_bare_thread_start(const char *name, void (*run)(void)) {
  (void)name;
  if (!fake_os_grant(fake_os_bare_thread_start)) return false;
  fake.bare_thread_run = run;
  return true;
}

/* The machine has no signals. */
hk_os_signal_t hk_os_signal_take(unsigned number, bool from_tool_alone, void (*hook)(void)) {
  (void)number;
  (void)from_tool_alone;
  (void)hook;
  return hk_os_signal_refused;
}
void hk_os_signal_listen(void) {}

void hk_os_signal_ignore(bool is_ignored) { (void)is_ignored; }

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
  fake_os_lock();
  fake_os_record_t record = {.call = fake_os_thread_exit_init};
  record.succeeded = fake_os_begin(fake_os_thread_exit_init) &&
                     (exit_hook != NULL || pthread_key_create(&exit_key, run_exit_hook) == 0);
  if (record.succeeded) exit_hook = hook;
  bool succeeded = fake_os_end(record);
  fake_os_unlock();
  return succeeded;
}

bool hk_os_thread_exit_arm(void) { return exit_hook != NULL && pthread_setspecific(exit_key, &exit_key) == 0; }

/* Numbers the threads that call it. */
hk_os_thread_t hk_os_thread_self(void) {
  return (hk_os_thread_t){.number = is_bare ? 0 : (uint64_t)syscall(SYS_gettid)};
}

bool hk_os_thread_sleeps(const hk_os_thread_t *thread) {
  return fake.thread_sleeps != NULL && fake.thread_sleeps(thread->number);
}

bool hk_os_thread_has_word(const hk_os_thread_t *thread, const void *address, const void *word) {
  return !hk_os_thread_has_ended(thread) && *(void *const volatile *)address == word;
}

bool hk_os_thread_has_ended(const hk_os_thread_t *thread) {
  int saved_errno = errno;
  bool has_ended = syscall(SYS_tkill, (pid_t)thread->number, 0) != 0 && errno == ESRCH;
  errno = saved_errno;
  return has_ended;
}

int hk_os_cancel_defer(void) {
  int type = PTHREAD_CANCEL_DEFERRED;
  (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  return type;
}

void hk_os_cancel_restore(int type) { (void)pthread_setcanceltype(type, &type); }

void hk_os_at_fork(void (*child)(void)) { pthread_atfork(NULL, NULL, child); }

/* ---- fake_os.h. ------------------------------------------------------------------------------------------------- */

void fake_os_reset(void) {
  fake_os_lock();
  fake_os_reset_calls();
  fake_os_reset_memory();
  memset(&fake, 0, sizeof(fake));
  fake.node_count = fake.cpu_count = 1;
  fake.now_ns = fake_os_start_ns;
  fake.clock_step_ns = 0;
  fake.cpu_step_ns = 0;
  fake.environment = no_environment;
  fake.process_secret = 42;
  fake.rights = hk_rights_settled;
  fake_os_unlock();
  current_node = 0;
}

void fake_os_set_cpu_count(unsigned count) { fake.cpu_count = count; }
void fake_os_move_to_cpu(unsigned cpu) { current_cpu = cpu; }
void fake_os_set_node_count(unsigned count) { fake.node_count = count; }
void fake_os_move_to_node(unsigned node) { current_node = node; }
uint64_t fake_os_node_questions(void) { return fake.node_questions; }
void fake_os_set_now(uint64_t now_ns) {
  fake_os_lock();
  fake.now_ns = now_ns;
  fake_os_unlock();
}
void fake_os_advance(uint64_t ns) {
  fake_os_lock();
  fake.now_ns += ns;
  fake_os_unlock();
}
void fake_os_set_cpu_step(uint64_t ns) { fake.cpu_step_ns = ns; }

void fake_os_set_clock_step(uint64_t ns) {
  fake_os_lock();
  fake.clock_step_ns = ns;
  fake_os_unlock();
}
void fake_os_set_environment(const char *const *environment) { fake.environment = environment; }
void fake_os_have_bare_thread(void) { fake.has_bare_thread = true; }
void (*fake_os_bare_thread(void))(void) {
  void (*run)(void) = fake.bare_thread_run;
  fake.bare_thread_run = NULL;
  return run;
}
void fake_os_set_rights(int rights) { fake.rights = (hk_rights_t)rights; }
uint64_t fake_os_rights_questions(void) { return fake.rights_questions; }
void fake_os_set_process_id(uint64_t process) { fake.process_id = process; }
void fake_os_set_secure_exec(bool secure) { fake.is_secure_exec = secure; }
void fake_os_set_process_secret(uint64_t secret) { fake.process_secret = secret; }
void fake_os_set_memory_limit(size_t limit_bytes, size_t use_bytes, unsigned stalled_permille) {
  fake.memory_limit.limit_bytes = limit_bytes;
  fake.memory_limit.use_bytes = use_bytes;
  fake.memory_limit.stalled_permille = stalled_permille;
}
void fake_os_set_anonymous(size_t bytes) { fake.memory_limit.anonymous_bytes = bytes; }
void fake_os_hide_memory_limit(bool hide) { fake.hides_memory_limit = hide; }
uint64_t fake_os_memory_limit_questions(void) { return fake.memory_limit_questions; }
void fake_os_set_memory_limit_hook(void (*hook)(void)) { fake.memory_limit_hook = hook; }
void (*fake_os_thread(void))(void) { return fake.thread_run; }
void fake_os_be_bare(void) { is_bare = true; }
void fake_os_be_ending(void) { is_ending = true; }
void fake_os_set_thread_sleeps(bool (*sleeps)(uint64_t number)) { fake.thread_sleeps = sleeps; }
void fake_os_set_thread_count(unsigned count) { fake.thread_count = count; }
void fake_os_set_wait_hook(void (*hook)(void)) { fake.wait_hook = hook; }
void fake_os_set_yield_hook(void (*hook)(void)) { fake.yield_hook = hook; }
void fake_os_refuse_waits(bool refuse) { fake.refuses_waits = refuse; }
uint64_t fake_os_waited_ms(void) { return fake.waited_ms; }
uint64_t fake_os_wakes(void) { return fake.wakes; }
void fake_os_set_memory(size_t resident_bytes, size_t peak_resident_bytes) {
  fake.memory = (hk_os_memory_t){resident_bytes, peak_resident_bytes};
}
const char *fake_os_stderr(void) { return fake.stderr_text; }
uint64_t fake_os_stderr_writes(void) { return fake.stderr_writes; }
void fake_os_set_abort_hook(void (*hook)(void)) { fake.abort_hook = hook; }
