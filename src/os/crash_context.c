/* os/crash_context.c - L1. See crash_context.h. Bare system calls alone. */
#define _GNU_SOURCE 1

#include "os/crash_context.h"

#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "os/syscall.h"

#if defined(__x86_64__)

const char hk_crash_register_names[HK_CRASH_REGISTERS][4] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi",
                                                             "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                             "r12", "r13", "r14", "r15", "rip"};
static const int register_order[HK_CRASH_REGISTERS] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                                                       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

enum { page_fault = 14 };

bool hk_crash_fault_address(const void *context, uintptr_t *address) {
  const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
  *address = (uintptr_t)registers[REG_CR2];
  return registers[REG_TRAPNO] == page_fault;
}

static void read_context(hk_crash_t *crash, const ucontext_t *context) {
  const greg_t *registers = context->uc_mcontext.gregs;
  for (int i = 0; i < HK_CRASH_REGISTERS; i++) crash->registers[i] = (uintptr_t)registers[register_order[i]];
  crash->program_counter = (uintptr_t)registers[REG_RIP];
  crash->stack_pointer = (uintptr_t)registers[REG_RSP];
  crash->frame_pointer = (uintptr_t)registers[REG_RBP];
  enum { of_a_write = 2, of_a_fetch = 16 };
  if (!crash->has_address || registers[REG_TRAPNO] != page_fault) return;
  greg_t error = registers[REG_ERR];
  crash->access = (error & of_a_fetch) != 0   ? hk_access_execute
                  : (error & of_a_write) != 0 ? hk_access_write
                                              : hk_access_read;
}

#else

const char hk_crash_register_names[HK_CRASH_REGISTERS][4] = {
    "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
    "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
    "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc"};

/* Reads the kind of access from the processor's syndrome register, which lies behind the registers among records of
 * various lengths. */
static void read_access(hk_crash_t *crash, const mcontext_t *machine) {
  typedef struct {
    uint32_t magic, bytes;
    uint64_t syndrome;
  } record_t;
  enum { esr_magic = 0x45535201, fetch_abort = 0x20, data_abort = 0x24, is_write = 1 << 6 };
  const unsigned char *at = (const unsigned char *)machine->__reserved, *end = at + sizeof machine->__reserved;
  while (at + sizeof(record_t) <= end) {
    const record_t *record = (const record_t *)(const void *)at;
    if (record->magic == 0 || record->bytes < 8) return;
    if (record->magic == esr_magic) {
      unsigned class = (unsigned)(record->syndrome >> 26) & 0x3e; /* of either privilege level */
      if (class == fetch_abort) crash->access = hk_access_execute;
      if (class == data_abort) crash->access = (record->syndrome & is_write) != 0 ? hk_access_write : hk_access_read;
      return;
    }
    at += record->bytes;
  }
}

bool hk_crash_fault_address(const void *context, uintptr_t *address) {
  *address = ((const ucontext_t *)context)->uc_mcontext.fault_address;
  return *address != 0;
}

static void read_context(hk_crash_t *crash, const ucontext_t *context) {
  const mcontext_t *machine = &context->uc_mcontext;
  for (int i = 0; i < 31; i++) crash->registers[i] = machine->regs[i];
  crash->registers[31] = crash->stack_pointer = machine->sp;
  crash->registers[32] = crash->program_counter = machine->pc;
  crash->frame_pointer = machine->regs[29];
  if (crash->has_address) read_access(crash, machine);
}

#endif

void hk_crash_read(hk_crash_t *crash, int number, const siginfo_t *info, const void *context) {
  memset(crash, 0, sizeof *crash);
  crash->number = number;
  crash->code = info->si_code;
  crash->is_fault = number != SIGABRT && info->si_code > 0;
  crash->has_address = crash->is_fault && info->si_code != SI_KERNEL;
  if (crash->has_address) crash->address = (uintptr_t)info->si_addr;
  if (!crash->is_fault && info->si_code <= 0) crash->sender = (uint64_t)info->si_pid;
  crash->thread = (uint64_t)hk_syscall2(SYS_gettid, 0, 0);
  (void)hk_syscall2(SYS_prctl, PR_GET_NAME, (long)crash->thread_name);
  crash->thread_name[sizeof crash->thread_name - 1] = '\0';
  read_context(crash, context);
}
