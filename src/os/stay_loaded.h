/* os/stay_loaded.h - L1. Code that the C library will call must not be unmapped. */
#ifndef HK_OS_STAY_LOADED_H
#define HK_OS_STAY_LOADED_H

/* Makes dlclose leave the object in memory that hakmem is linked into, when it is one that could go: a plugin. Blocks that
 * outlive a plugin, threads that used it and end later, and the next dlopen then find this hakmem as it was. The C
 * library allocates inside. */
void hk_os_stay_loaded(void);

#endif /* HK_OS_STAY_LOADED_H */
