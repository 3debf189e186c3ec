/* os/timespec.h - L1. Converts between numbers of ms or ns and the system's struct timespec. */
#ifndef HK_OS_TIMESPEC_H
#define HK_OS_TIMESPEC_H

#include <stdint.h>
#include <time.h>

#include "base/compiler.h"

HK_INLINE uint64_t hk_timespec_to_ns(struct timespec time) {
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

HK_INLINE uint64_t hk_timespec_to_ms(struct timespec time) {
  return (uint64_t)time.tv_sec * 1000u + (uint64_t)time.tv_nsec / 1000000u;
}

HK_INLINE struct timespec hk_timespec_of_ns(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

HK_INLINE struct timespec hk_timespec_of_ms(uint64_t ms) {
  return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

#endif /* HK_OS_TIMESPEC_H */
