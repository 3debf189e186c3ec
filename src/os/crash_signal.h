/* os/crash_signal.h - L1. The signals of a program that crashes: SIGSEGV, SIGBUS and SIGABRT, each once, and after that the program
 * ends, or goes on, as it would have without us.
 *
 * A handler of the program's that was there before gets the same signal after the report, from the kernel, with the same
 * siginfo, mask and stack. One that the program installs later takes our place; where it calls ours in turn, as some do
 * with what they found, it is reported, and ends as the handler before ours would have it.
 */
#ifndef HK_OS_CRASH_SIGNAL_H
#define HK_OS_CRASH_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* The general registers with an address in them, the stack pointer and the program counter among them. */
#if defined(__x86_64__)
#define HK_CRASH_REGISTERS 17
#else
#define HK_CRASH_REGISTERS 33
#endif

typedef enum { hk_access_unknown, hk_access_read, hk_access_write, hk_access_execute } hk_access_t;

typedef struct {
  int number;
  int code;         /* of the siginfo */
  bool is_fault;    /* the thread's own instruction did it, not kill, raise or abort */
  bool has_address; /* the processor says which address it was */
  uint64_t sender;  /* who sent it, where that is not a fault: a process */
  uintptr_t address;
  hk_access_t access;
  uint64_t thread;
  char thread_name[16];
  uintptr_t program_counter, stack_pointer, frame_pointer;
  uintptr_t registers[HK_CRASH_REGISTERS];
} hk_crash_t;

extern const char *const hk_crash_register_names[HK_CRASH_REGISTERS];

/* From now on `report` is called for the first of these signals that is not ignored, in the thread that it came to, with
 * most signals blocked. Should it crash itself, the rest of it is left out. Once; later calls do nothing. */
void hk_crash_signal_catch(void (*report)(const hk_crash_t *crash));

#endif /* HK_OS_CRASH_SIGNAL_H */
