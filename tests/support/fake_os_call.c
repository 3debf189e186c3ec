/* See fake_os_call.h. */
#include "fake_os_call.h"

#include <pthread.h>
#include <string.h>

#define LOG_MAX 16384

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct {
  uint64_t calls[fake_os_call_count];
  uint64_t failures[fake_os_call_count];
  uint64_t fail_at[fake_os_call_count];   /* the number of a call; 0: none */
  uint64_t fail_from[fake_os_call_count]; /* the same */
  bool fail_all[fake_os_call_count];
  void (*hook[fake_os_call_count])(void);
  fake_os_record_t log[LOG_MAX];
  size_t log_length;
} script;

void fake_os_lock(void) { pthread_mutex_lock(&mutex); }
void fake_os_unlock(void) { pthread_mutex_unlock(&mutex); }

void fake_os_announce(fake_os_call_t call) {
  if (script.hook[call] != NULL) script.hook[call]();
}

bool fake_os_begin(fake_os_call_t call) {
  uint64_t turn = ++script.calls[call], from = script.fail_from[call];
  return !script.fail_all[call] && turn != script.fail_at[call] && (from == 0 || turn < from);
}

bool fake_os_grant(fake_os_call_t call) {
  fake_os_lock();
  bool is_granted = fake_os_begin(call);
  if (!is_granted) script.failures[call]++;
  fake_os_unlock();
  return is_granted;
}

bool fake_os_end(fake_os_record_t record) {
  if (!record.succeeded) script.failures[record.call]++;
  if (script.log_length < LOG_MAX) script.log[script.log_length] = record;
  script.log_length++;
  return record.succeeded;
}

void fake_os_reset_calls(void) { memset(&script, 0, sizeof(script)); }

void fake_os_fail_nth(fake_os_call_t call, uint64_t nth) {
  fake_os_lock();
  script.fail_at[call] = nth == 0 ? 0 : script.calls[call] + nth;
  fake_os_unlock();
}

void fake_os_fail_from(fake_os_call_t call, uint64_t nth) {
  fake_os_lock();
  script.fail_from[call] = nth == 0 ? 0 : script.calls[call] + nth;
  fake_os_unlock();
}

void fake_os_fail_all(fake_os_call_t call, bool fail) {
  fake_os_lock();
  script.fail_all[call] = fail;
  script.fail_from[call] = 0;
  fake_os_unlock();
}

uint64_t fake_os_calls(fake_os_call_t call) { return script.calls[call]; }
uint64_t fake_os_failures(fake_os_call_t call) { return script.failures[call]; }
size_t fake_os_log_length(void) { return script.log_length; }
const fake_os_record_t *fake_os_log(size_t index) { return index < LOG_MAX ? &script.log[index] : NULL; }

void fake_os_set_hook(fake_os_call_t call, void (*hook)(void)) { script.hook[call] = hook; }
