/* os/stay_loaded.h - L1. Keeps code loaded that the C library will call. */
#ifndef HK_OS_STAY_LOADED_H
#define HK_OS_STAY_LOADED_H

/* Makes dlclose leave the object in memory that has hakmem in it, when that object is a plugin, which could be
 * unloaded. Blocks that outlive the plugin, threads that used it and end later, and the next dlopen then find this
 * hakmem unchanged. The C library allocates inside. */
void hk_os_stay_loaded(void);

#endif /* HK_OS_STAY_LOADED_H */
