/* unwind/frame.c - L6. See frame.h. The stack may be damaged, and registers may have any value: the stack reader reads
 * all memory. A step leads up the stack, but for one out of a signal handler. Callers bound the number of steps. */
#include "unwind/frame.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "base/bits.h"
#include "os/copy_out.h"
#include "os/own_stack.h"
#include "unwind/rule_cache.h"
#include "unwind/unwind_table.h"

/* No code lies below: a first page without access makes NULL fault. */
#define LOWEST_CODE 4096
/* The most bytes from a stack pointer to the frame pointer, and from there to the next, in a step by frame pointers. */
#define FRAME_BYTES_MAX ((uintptr_t)1 << 20)

static uintptr_t without_signature(uintptr_t address) {
#if defined(__aarch64__)
  register uintptr_t link __asm__("x30") = address;
  __asm__("hint 7" : "+r"(link)); /* xpaclri: has no effect where addresses are not signed */
  return link;
#else
  return address;
#endif
}

static bool is_known(const hk_frame_t *frame, unsigned number) { return (frame->known >> number & 1) != 0; }

static bool read_register(const hk_frame_t *frame, hk_stack_reader_t *stack, unsigned number, uintptr_t *value) {
  if (!is_known(frame, number)) return false;
  *value = frame->registers[number];
  return (frame->is_placed >> number & 1) == 0 || hk_stack_reader_word(stack, *value, value);
}

/* Returns false when no code can lie at the address. */
static bool enter_caller(hk_frame_t *frame, uintptr_t return_address) {
  return_address = without_signature(return_address);
  if (return_address < LOWEST_CODE) return false;
  frame->registers[hk_frame_ra] = return_address;
  frame->known |= 1u << hk_frame_ra;
  frame->is_placed &= (uint8_t) ~(1u << hk_frame_ra);
  frame->pc = return_address - 1;
  frame->is_stopped = false;
  return true;
}

/* ---- By a rule. */

/* Returns whether a frame may end there: above the stack pointer; a stopped frame at it too; the frame that changes the
 * stack anywhere. */
static bool may_end_at(const hk_frame_t *frame, uintptr_t end) {
  uintptr_t sp = frame->registers[hk_frame_sp];
  if (!hk_is_aligned(end, sizeof(uintptr_t))) return false;
  return end > sp || (frame->is_stopped && end == sp) || hk_own_stack_is_caller(frame->pc);
}

/* Stores the address that the rule counts from, and the frame's end. Returns false when they cannot be read, or when
 * the frame cannot end there. */
static bool find_end(const hk_frame_t *frame, hk_stack_reader_t *stack, const hk_frame_rule_t *rule, uintptr_t *base,
                     uintptr_t *end) {
  if (rule->base >= hk_frame_register_count || !read_register(frame, stack, rule->base, base)) return false;
  *end = *base + (uintptr_t)(intptr_t)rule->offset;
  if (rule->is_in_memory) {
    if (!hk_stack_reader_word(stack, *end, end)) return false;
    *end += (uintptr_t)(intptr_t)rule->extra;
  }
  return may_end_at(frame, *end);
}

static bool step_by_rule(hk_frame_t *frame, hk_stack_reader_t *stack, const hk_frame_rule_t *rule,
                         hk_frame_note_t *note) {
  uintptr_t base, end, return_address;
  if (!find_end(frame, stack, rule, &base, &end)) return false;
  unsigned saved = 0, lost = 0;
  for (unsigned i = hk_frame_sp + 1; i < hk_frame_register_count; i++) {
    int16_t words = rule->saved[i];
    if (words == HK_SAVED_SAME) continue;
    if (words == HK_SAVED_LOST) {
      lost |= 1u << i;
      continue;
    }
    uintptr_t from = (rule->from_base >> i & 1) != 0 ? base : end;
    frame->registers[i] = from + (uintptr_t)((intptr_t)words * 8);
    saved |= 1u << i;
  }
  frame->known = (uint8_t)((frame->known | saved) & ~lost);
  frame->is_placed = (uint8_t)((frame->is_placed | saved) & ~lost);
  *note = (hk_frame_note_t){.used = (uint8_t)(1u << rule->base),
                            .saved = (uint8_t)saved,
                            .changed = (uint8_t)(saved | lost | 1u << hk_frame_sp),
                            .is_plain = rule->is_in_memory == 0,
                            .ra_place = frame->registers[hk_frame_ra]};
  if (!read_register(frame, stack, hk_frame_ra, &return_address)) return false;
  frame->registers[hk_frame_sp] = end;
  return enter_caller(frame, return_address);
}

/* ---- Out of a signal handler. */

/* The code that a signal handler returns to. */
#if defined(__x86_64__)
static const unsigned char signal_return[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}; /* mov $15, %rax; syscall */
#define CONTEXT_OFFSET 0
#define SAVED_AT(member) (CONTEXT_OFFSET + offsetof(ucontext_t, uc_mcontext.gregs[member]))
static const unsigned short places[hk_frame_register_count] = {
    [hk_frame_sp] = SAVED_AT(REG_RSP),  [hk_frame_fp] = SAVED_AT(REG_RBP),  [hk_frame_ra] = SAVED_AT(REG_RIP),
    [hk_frame_rbx] = SAVED_AT(REG_RBX), [hk_frame_r12] = SAVED_AT(REG_R12), [hk_frame_r13] = SAVED_AT(REG_R13),
    [hk_frame_r14] = SAVED_AT(REG_R14), [hk_frame_r15] = SAVED_AT(REG_R15),
};
#define PC_PLACE SAVED_AT(REG_RIP)
#else
static const unsigned char signal_return[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}; /* mov x8, #139; svc #0 */
#define CONTEXT_OFFSET sizeof(siginfo_t)
#define SAVED_AT(member) (CONTEXT_OFFSET + offsetof(ucontext_t, uc_mcontext.member))
static const unsigned short places[hk_frame_register_count] = {
    [hk_frame_sp] = SAVED_AT(sp),
    [hk_frame_fp] = SAVED_AT(regs[29]),
    [hk_frame_ra] = SAVED_AT(regs[30]),
};
#define PC_PLACE SAVED_AT(pc)
#endif

static bool returns_from_signal(uintptr_t pc) {
  unsigned char code[sizeof(signal_return)];
  return hk_os_copy_out(code, pc + 1, sizeof(code)) == sizeof(code) && memcmp(code, signal_return, sizeof(code)) == 0;
}

/* The interrupted frame may be on another stack: its stack pointer may have any value. */
static bool step_out_of_signal(hk_frame_t *frame, hk_stack_reader_t *stack, hk_frame_note_t *note) {
  *note = (hk_frame_note_t){.is_plain = false};
  hk_frame_t caller = {.known = (uint8_t)((1u << hk_frame_register_count) - 1), .is_stopped = true};
  uintptr_t sp = frame->registers[hk_frame_sp];
  for (unsigned i = 0; i < hk_frame_register_count; i++) {
    if (!hk_stack_reader_word(stack, sp + places[i], &caller.registers[i])) return false;
  }
  if (!hk_stack_reader_word(stack, sp + PC_PLACE, &caller.pc) || caller.pc < LOWEST_CODE) return false;
  *frame = caller;
  hk_stack_reader_move(stack, caller.registers[hk_frame_sp]);
  return true;
}

/* ---- By the frame pointer: for code without a table, as compilers make at run time. */

static bool is_code_of_module(uintptr_t pc) {
  hk_module_t module;
  return hk_module_find(pc, &module);
}

static bool step_by_pointer(hk_frame_t *frame, hk_stack_reader_t *stack, hk_frame_note_t *note) {
  uintptr_t sp = frame->registers[hk_frame_sp], pointer, next, return_address;
  if (!read_register(frame, stack, hk_frame_fp, &pointer)) return false;
  if (pointer < sp || pointer - sp > FRAME_BYTES_MAX) return false;
  if (!hk_is_aligned(pointer, sizeof(uintptr_t))) return false;
  if (!hk_stack_reader_word(stack, pointer, &next)) return false;
  if (!hk_stack_reader_word(stack, pointer + sizeof(uintptr_t), &return_address)) return false;
  return_address = without_signature(return_address);
  /* A register that is no frame pointer rarely leads to an address of code, or to a further frame pointer. */
  bool goes_on = next > pointer && next - pointer <= FRAME_BYTES_MAX && hk_is_aligned(next, sizeof(uintptr_t));
  if (!goes_on && !is_code_of_module(return_address - 1)) return false;
  frame->registers[hk_frame_sp] = pointer + 2 * sizeof(uintptr_t);
  frame->registers[hk_frame_fp] = pointer;
  frame->known = 1u << hk_frame_sp | 1u << hk_frame_fp;
  frame->is_placed = 1u << hk_frame_fp;
  *note = (hk_frame_note_t){.used = 1u << hk_frame_fp,
                            .saved = 1u << hk_frame_fp | 1u << hk_frame_ra,
                            .changed = UINT8_MAX,
                            .is_plain = true,
                            .ra_place = pointer + sizeof(uintptr_t)};
  return enter_caller(frame, return_address);
}

/* ---- By the code behind the call: for small code without a table, as CPython makes for each of its functions. */

#if defined(__x86_64__)
/* Stores the rule of a frame that returns at once. Returns false when other code stands there. */
static bool find_return(uintptr_t pc, hk_frame_rule_t *rule) {
  static const unsigned char add[] = {0x48, 0x83, 0xc4}; /* add $N, %rsp */
  unsigned char code[sizeof(add) + 2];                   /* N, and ret */
  if (hk_os_copy_out(code, pc + 1, sizeof(code)) != sizeof(code)) return false;
  unsigned bytes = code[sizeof(add)];
  if (memcmp(code, add, sizeof(add)) != 0 || code[sizeof(add) + 1] != 0xc3 || bytes > INT8_MAX) return false;
  *rule = (hk_frame_rule_t){.kind = hk_frame_ruled, .base = hk_frame_sp, .offset = (int32_t)bytes + 8};
  for (unsigned i = 0; i < hk_frame_register_count; i++) rule->saved[i] = HK_SAVED_SAME;
  rule->saved[hk_frame_ra] = -1;
  return true;
}
#else
/* Such code has a frame pointer here. */
static bool find_return(uintptr_t pc, hk_frame_rule_t *rule) {
  (void)pc;
  (void)rule;
  return false;
}
#endif

/* ---- */

/* The last module is still loaded: a frame of its code is on the walked stack. */
static void find_module(hk_module_t *module, uintptr_t pc) {
  if (HK_LIKELY(pc - module->start < module->end - module->start)) return;
  if (!hk_module_find(pc, module)) *module = (hk_module_t){0, 0, 0};
}

static void find_rule(uintptr_t pc, hk_frame_source_t *source, hk_frame_rule_t *rule) {
  hk_module_t *module = &source->module;
  find_module(module, pc);
  if (hk_rule_cache_get(pc, module, rule)) return;
  if (returns_from_signal(pc)) {
    *rule = (hk_frame_rule_t){.kind = hk_frame_signal};
  } else if (module->index == 0) {
    if (!find_return(pc, rule)) *rule = (hk_frame_rule_t){.kind = hk_frame_unknown};
  } else if (!hk_unwind_table_find(module->index, pc, rule, &source->tables)) {
    *rule = (hk_frame_rule_t){.kind = hk_frame_unknown};
  }
  hk_rule_cache_put(pc, module, rule);
}

bool hk_frame_step_noting(hk_frame_t *frame, hk_frame_source_t *source, hk_frame_note_t *note) {
  hk_stack_reader_t *stack = &source->stack;
  hk_frame_rule_t rule;
  find_rule(frame->pc, source, &rule);
  switch (rule.kind) {
    case hk_frame_ruled:
      return step_by_rule(frame, stack, &rule, note);
    case hk_frame_signal:
      return step_out_of_signal(frame, stack, note);
    case hk_frame_unknown:
      return step_by_pointer(frame, stack, note);
    default:
      return false;
  }
}

bool hk_frame_step(hk_frame_t *frame, hk_frame_source_t *source) {
  hk_frame_note_t note;
  return hk_frame_step_noting(frame, source, &note);
}
