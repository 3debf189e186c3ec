/* os/crash_context.h - L1. What a signal tells about a crash: the cause, the address, the kind of access and the
 * registers. */
#ifndef HK_OS_CRASH_CONTEXT_H
#define HK_OS_CRASH_CONTEXT_H

#include <signal.h>
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
  int number;        /* of the signal */
  int code;          /* of the siginfo */
  bool is_fault;     /* caused by the thread's own instruction, not by kill, raise or abort */
  bool has_address;  /* the processor reports the address */
  uint64_t sender;   /* the sending process, where a process sent the signal */
  uintptr_t address; /* of the access, with has_address */
  hk_access_t access;
  uint64_t thread; /* the kernel's number of it */
  char thread_name[16];
  uintptr_t program_counter, stack_pointer, frame_pointer;
  uintptr_t registers[HK_CRASH_REGISTERS];
} hk_crash_t;

extern const char hk_crash_register_names[HK_CRASH_REGISTERS][4];

/* Reads the address of a fault from a handler's third argument alone. Returns false where the registers have none;
 * those of a signal that was sent have the thread's last one. */
bool hk_crash_fault_address(const void *context, uintptr_t *address);

/* Reads what the kernel hands to a signal handler. `context` is the handler's third argument. */
void hk_crash_read(hk_crash_t *crash, int number, const siginfo_t *info, const void *context);

#endif /* HK_OS_CRASH_CONTEXT_H */
