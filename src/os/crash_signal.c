/* os/crash_signal.c - L1. See crash_signal.h. Bare system calls alone: a handler may have interrupted the C library at
 * any point. */
#define _GNU_SOURCE 1

#include "os/crash_signal.h"

#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "os/os.h"
#include "os/syscall.h"

/* The kernel's own structure for rt_sigaction. */
typedef struct {
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
} action_t;

/* A signal in the kernel's masks: bit i is signal i + 1. */
#define MASK_OF(number) ((uint64_t)1 << ((number)-1))

/* Signals that the report itself may cause. They stay unblocked, because the kernel ends a program that causes a
 * blocked one. */
#define OF_ITS_OWN                                                                                                \
  (MASK_OF(SIGSEGV) | MASK_OF(SIGBUS) | MASK_OF(SIGABRT) | MASK_OF(SIGILL) | MASK_OF(SIGFPE) | MASK_OF(SIGTRAP) | \
   MASK_OF(SIGSYS))

/* The kernel's flag, which not every header has. */
#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

/* Chosen: a thread that crashes while another one reports waits for the report for at most WAIT_STEPS steps of
 * WAIT_STEP_MS. */
#define WAIT_STEPS 50
#define WAIT_STEP_MS 100

static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
enum { signal_count = sizeof signals / sizeof signals[0] };

/* Written before the first handler can run, and constant from then on. */
static action_t previous[signal_count];
static bool is_caught[signal_count];
static void (*report_hook)(const hk_crash_t *crash);

/* The reporting process and thread, or 0. A child of fork ignores the claim of the other process. */
static _Atomic(uint64_t) reporter;
static uint32_t is_done;   /* a futex: 1 when the report is written or abandoned */
static siginfo_t reported; /* the reported signal; written by the reporter */

static void on_signal(int number, siginfo_t *info, void *context);

#if defined(__x86_64__)
/* The code that a handler returns to. The kernel has none of its own. Debuggers and unwinders recognise it by its
 * bytes. */
__asm__(
    ".text\n"
    ".balign 16\n"
    ".type hk_crash_signal_return, @function\n"
    "nop\n"
    "hk_crash_signal_return:\n"
    "  movq $15, %rax\n"
    "  syscall\n"
    ".size hk_crash_signal_return, .-hk_crash_signal_return\n");
__attribute__((visibility("hidden"))) void hk_crash_signal_return(void);
#define RESTORER hk_crash_signal_return
#define OUR_FLAGS (SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTORER)
#else
#define RESTORER NULL
#define OUR_FLAGS (SA_SIGINFO | SA_ONSTACK | SA_NODEFER)
#endif

static bool exchange(int number, const action_t *action, action_t *before) {
  return hk_syscall4(SYS_rt_sigaction, number, (long)action, (long)before, sizeof action->mask) == 0;
}

static int index_of(int number) {
  for (int i = 0; i < signal_count; i++) {
    if (signals[i] == number) return i;
  }
  return -1;
}

/* Returns false for SIG_DFL and SIG_IGN. */
static bool is_function(const action_t *action) {
  return (uintptr_t)action->handler != (uintptr_t)SIG_DFL && (uintptr_t)action->handler != (uintptr_t)SIG_IGN;
}

/* ---- The signal's context. ------------------------------------------------------------------------------------- */

#if defined(__x86_64__)

const char hk_crash_register_names[HK_CRASH_REGISTERS][4] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi",
                                                             "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                             "r12", "r13", "r14", "r15", "rip"};
static const int register_order[HK_CRASH_REGISTERS] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                                                       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

static void read_context(hk_crash_t *crash, const ucontext_t *context) {
  const greg_t *registers = context->uc_mcontext.gregs;
  for (int i = 0; i < HK_CRASH_REGISTERS; i++) crash->registers[i] = (uintptr_t)registers[register_order[i]];
  crash->program_counter = (uintptr_t)registers[REG_RIP];
  crash->stack_pointer = (uintptr_t)registers[REG_RSP];
  crash->frame_pointer = (uintptr_t)registers[REG_RBP];
  enum { page_fault = 14, of_a_write = 2, of_a_fetch = 16 };
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

static void read_context(hk_crash_t *crash, const ucontext_t *context) {
  const mcontext_t *machine = &context->uc_mcontext;
  for (int i = 0; i < 31; i++) crash->registers[i] = machine->regs[i];
  crash->registers[31] = crash->stack_pointer = machine->sp;
  crash->registers[32] = crash->program_counter = machine->pc;
  crash->frame_pointer = machine->regs[29];
  if (crash->has_address) read_access(crash, machine);
}

#endif

static void read_crash(hk_crash_t *crash, int number, const siginfo_t *info, const ucontext_t *context) {
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

/* ---- After the report. ----------------------------------------------------------------------------------------- */

static bool is_ours(int number) {
  action_t now = {.handler = NULL};
  return exchange(number, NULL, &now) && now.handler == on_signal;
}

static void restore_all(void) {
  for (int i = 0; i < signal_count; i++) {
    if (is_caught[i] && is_ours(signals[i])) (void)exchange(signals[i], &previous[i], NULL);
  }
}

/* Sends the same signal again, to arrive when the handler has returned: it then finds the thread as it was interrupted.
 * A queued signal arrives in any case, while the interrupted instruction may not raise it again. */
static void send_again(int number, siginfo_t *info) {
  uint64_t mask = MASK_OF(number);
  (void)hk_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
  long process = (long)hk_os_process_id(), thread = hk_syscall2(SYS_gettid, 0, 0);
  if (hk_syscall4(SYS_rt_tgsigqueueinfo, process, thread, number, (long)info) == 0) return;
  bool comes_again = number != SIGABRT && info->si_code > 0;
  if (!comes_again) (void)hk_syscall3(SYS_tgkill, process, thread, number);
}

/* Does what the handler before ours would do. For a handler that the program installed after ours and that called
 * ours. */
static void act_as_previous(int number, siginfo_t *info, void *context) {
  const action_t *before = &previous[index_of(number)];
  if (is_function(before)) {
    before->handler(number, info, context); /* a handler without SA_SIGINFO reads the first argument alone */
    return;
  }
  action_t by_default = {.handler = (void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL};
  (void)exchange(number, &by_default, NULL);
  send_again(number, info);
}

static void hand_over(int number, siginfo_t *info, void *context) {
  if (!is_ours(number)) {
    restore_all();
    act_as_previous(number, info, context);
  } else {
    restore_all();
    send_again(number, info);
  }
}

static void finish_report(void) {
  __atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
  (void)hk_syscall6(SYS_futex, (long)&is_done, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

static void wait_for_report(void) {
  for (int i = 0; i < WAIT_STEPS && __atomic_load_n(&is_done, __ATOMIC_ACQUIRE) == 0; i++) {
    hk_os_wait_for(&is_done, 0, WAIT_STEP_MS);
  }
}

typedef enum { is_first, is_again, is_in_report, is_of_another } turn_t;

static turn_t take_turn(void) {
  uint64_t process = hk_os_process_id();
  uint64_t me = process << 32 | (uint64_t)hk_syscall2(SYS_gettid, 0, 0);
  uint64_t claim = hk_load_acquire(&reporter);
  for (;;) {
    if (claim == me) return __atomic_load_n(&is_done, __ATOMIC_RELAXED) != 0 ? is_again : is_in_report;
    if (claim != 0 && claim >> 32 == process) return is_of_another;
    if (hk_compare_exchange_weak_acq_rel(&reporter, &claim, me)) break;
  }
  __atomic_store_n(&is_done, 0, __ATOMIC_RELAXED);
  return is_first;
}

static void report_first(int number, siginfo_t *info, void *context) {
  hk_crash_t crash;
  reported = *info;
  read_crash(&crash, number, info, context);
  report_hook(&crash);
  finish_report();
}

static void on_signal(int number, siginfo_t *info, void *context) {
  static const char gave_up[] = "hakmem:   the rest of this report failed\n";
  switch (take_turn()) {
    case is_first:
      report_first(number, info, context);
      break;
    case is_in_report: /* the program ends by the reported signal, not by one that the report caused */
      hk_os_write_stderr(gave_up, sizeof gave_up - 1);
      finish_report();
      restore_all();
      send_again(reported.si_signo, &reported);
      return;
    case is_of_another:
      wait_for_report();
      break;
    case is_again:
      break;
  }
  hand_over(number, info, context);
}

/* Installs the handler for one signal. An ignored signal stays ignored, for this program and for those that it
 * starts. */
static void catch_one(int i) {
  action_t ours = {.handler = on_signal, .flags = OUR_FLAGS, .restorer = RESTORER, .mask = ~OF_ITS_OWN};
  if (!exchange(signals[i], NULL, &previous[i])) return;
  if ((uintptr_t)previous[i].handler == (uintptr_t)SIG_IGN) return;
  is_caught[i] = true;
  is_caught[i] = exchange(signals[i], &ours, NULL);
}

void hk_crash_signal_catch(void (*report)(const hk_crash_t *crash)) {
  if (report_hook != NULL) return;
  report_hook = report;
  for (int i = 0; i < signal_count; i++) catch_one(i);
}
