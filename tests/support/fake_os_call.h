/* What the parts of the fake machine share: one mutex for all of it, and of the calls that may fail the script, the hooks and
 * the log. The hooks run, and waiting is done, without the mutex.
 */
#ifndef HK_TESTS_SUPPORT_FAKE_OS_CALL_H
#define HK_TESTS_SUPPORT_FAKE_OS_CALL_H

#include "fake_os.h"

void fake_os_lock(void);
void fake_os_unlock(void);

/* Before the call takes the lock: the hook may make calls too. */
void fake_os_announce(fake_os_call_t call);

/* Counts the call. False when it is to fail. */
bool fake_os_begin(fake_os_call_t call);

/* The whole of a call that is not logged: false when it is to fail. */
bool fake_os_grant(fake_os_call_t call);

/* Logs the call, and says whether it succeeded. */
bool fake_os_end(fake_os_record_t record);

/* Each part's own share of fake_os_reset, with the lock. */
void fake_os_reset_calls(void);
void fake_os_reset_memory(void);

#endif /* HK_TESTS_SUPPORT_FAKE_OS_CALL_H */
