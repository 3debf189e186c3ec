/* os/huge_setting.h - L1. The system's setting for huge pages, as the kernel's file says it. For os_huge.c alone. */
#ifndef HK_OS_HUGE_SETTING_H
#define HK_OS_HUGE_SETTING_H

#include "os/os.h"

/* Never where the file cannot be read, or says what is not known. */
hk_os_huge_t hk_huge_setting_read(const char *path);

#endif /* HK_OS_HUGE_SETTING_H */
