/* os/huge_setting.h - L1. Reads the system's setting for huge pages from the kernel's file. For os_huge.c alone. */
#ifndef HK_OS_HUGE_SETTING_H
#define HK_OS_HUGE_SETTING_H

#include "os/os.h"

/* Returns hk_os_huge_never where the file cannot be read or its setting is unknown. */
hk_os_huge_t hk_huge_setting_read(const char *path);

#endif /* HK_OS_HUGE_SETTING_H */
