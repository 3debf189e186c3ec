/* inspect/profile_control.c - L8. The public functions that start and stop the heap profile. */
#include "api/instruments.h"
#include "api/lifecycle.h"
#include "api/misuse.h"
#include "hakmem/hakmem.h"
#include "heap/sample_countdown.h"
#include "inspect/profile.h"

/* Applies the change to the calling thread's heap at once. */
static void follow(void) {
  hk_thread_lease_t lease = hk_lifecycle_enter();
  if (lease.heap == NULL) return;
  hk_sample_countdown_follow(lease.heap);
  hk_misuse_report_damaged(lease.heap);
  hk_thread_leave(lease);
}

bool hakmem_profile_start(size_t rate) {
  bool started = hk_profile_start(rate);
  if (started) follow();
  return started;
}

bool hakmem_profile_stop(void) {
  bool stopped = hk_profile_stop();
  if (stopped) follow();
  return stopped;
}
