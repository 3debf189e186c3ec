/* os/crash_signal.h - L1. Catches the signals of a program that crashes: SIGSEGV, SIGBUS and SIGABRT, each once. After
 * that the program ends, or continues, as it would have without hakmem.
 *
 * A handler that the program had installed before gets the same signal after the report, from the kernel, with the same
 * siginfo, mask and stack. A handler that the program installs later replaces hakmem's. Where it then calls hakmem's
 * handler, as some handlers call the one that they found, the crash is reported. Then the handler before hakmem's
 * decides how the program ends.
 */
#ifndef HK_OS_CRASH_SIGNAL_H
#define HK_OS_CRASH_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* The number of general registers that can hold an address, with the stack pointer and the program counter. */
#if defined(__x86_64__)
#define HK_CRASH_REGISTERS 17
#else
#define HK_CRASH_REGISTERS 33
#endif

typedef enum { hk_access_unknown, hk_access_read, hk_access_write, hk_access_execute } hk_access_t;

typedef struct {
  int number;
  int code;         /* of the siginfo */
  bool is_fault;    /* caused by the thread's own instruction, not by kill, raise or abort */
  bool has_address; /* the processor reports the address */
  uint64_t sender;  /* the sending process, where a process sent the signal */
  uintptr_t address;
  hk_access_t access;
  uint64_t thread;
  char thread_name[16];
  uintptr_t program_counter, stack_pointer, frame_pointer;
  uintptr_t registers[HK_CRASH_REGISTERS];
} hk_crash_t;

extern const char hk_crash_register_names[HK_CRASH_REGISTERS][4];

/* Calls `report` from now on for the first of these signals that is not ignored, in the thread that the signal reached,
 * with most signals blocked. When `report` itself crashes, the rest of it is left out. Only the first call has an
 * effect. */
void hk_crash_signal_catch(void (*report)(const hk_crash_t *crash));

#endif /* HK_OS_CRASH_SIGNAL_H */
