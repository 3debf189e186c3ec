/* os/rights.h - L1. Whether a thread that the C library does not know still has the rights of its program: which may give
 * some up, thread by thread, and then counts on having given them up. */
#ifndef HK_OS_RIGHTS_H
#define HK_OS_RIGHTS_H

#include "base/compiler.h"

HK_C_BEGIN

typedef enum { hk_rights_same, hk_rights_differ, hk_rights_unknown } hk_rights_t;

/* User, groups and capabilities of the calling thread beside those of the process's first one. Unknown where /proc is
 * not to be seen. Two files are read: now and then. */
hk_rights_t hk_rights_compare(void);

HK_C_END

#endif /* HK_OS_RIGHTS_H */
