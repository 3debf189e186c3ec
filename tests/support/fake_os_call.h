/* What the parts of the fake machine share: one mutex for the whole machine, and the script, the hooks and the log of
 * the calls that may fail. Hooks run, and threads wait, without the mutex.
 */
#ifndef HK_TESTS_SUPPORT_FAKE_OS_CALL_H
#define HK_TESTS_SUPPORT_FAKE_OS_CALL_H

#include "fake_os.h"

void fake_os_lock(void);
void fake_os_unlock(void);

/* Runs the call's hook. Requires that the mutex is free: the hook may make calls too. */
void fake_os_announce(fake_os_call_t call);

/* Counts the call. Returns false when it has to fail. Requires the mutex. */
bool fake_os_begin(fake_os_call_t call);

/* Counts a call that is not logged, and takes the mutex for that. Returns false when it has to fail. */
bool fake_os_grant(fake_os_call_t call);

/* Logs the call and returns whether it succeeded. Requires the mutex. */
bool fake_os_end(fake_os_record_t record);

/* Reset a part of the machine each. Require the mutex. */
void fake_os_reset_calls(void);
void fake_os_reset_memory(void);

#endif /* HK_TESTS_SUPPORT_FAKE_OS_CALL_H */
