/* unwind/place.c - L6. See place.h. */
#include "unwind/place.h"

#include "unwind/frame_rule.h"

/* The operations that occur in unwind tables. */
enum {
  op_deref = 0x06,
  op_const1u = 0x08,
  op_const1s = 0x09,
  op_const2u = 0x0a,
  op_const2s = 0x0b,
  op_const4u = 0x0c,
  op_const4s = 0x0d,
  op_constu = 0x10,
  op_consts = 0x11,
  op_and = 0x1a,
  op_minus = 0x1c,
  op_plus = 0x22,
  op_plus_uconst = 0x23,
  op_shl = 0x24,
  op_ge = 0x2a,
  op_lit0 = 0x30,
  op_lit31 = 0x4f,
  op_breg0 = 0x70,
  op_breg31 = 0x8f,
};

/* DWARF's number of the instruction pointer on x86-64. Its value is the address that the rule is made for. */
#define DWARF_PC 16

#define STACK_MAX 8

typedef struct {
  hk_place_t places[STACK_MAX];
  unsigned count;
  bool failed;
} expression_t;

static void push(expression_t *stack, hk_place_t place) {
  if (stack->count == STACK_MAX) {
    stack->failed = true;
    return;
  }
  stack->places[stack->count++] = place;
}

static void push_number(expression_t *stack, int64_t number) {
  push(stack, (hk_place_t){.base = hk_frame_no_register, .offset = number});
}

static hk_place_t pop(expression_t *stack) {
  if (stack->count == 0) {
    stack->failed = true;
    return (hk_place_t){.base = hk_frame_no_register};
  }
  return stack->places[--stack->count];
}

static int64_t pop_number(expression_t *stack) {
  hk_place_t place = pop(stack);
  if (place.base != hk_frame_no_register) stack->failed = true;
  return place.offset;
}

/* Adds with wraparound: numbers of damaged tables may have any value. */
static int64_t sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static void push_register(expression_t *stack, uint64_t dwarf, int64_t offset, uintptr_t pc) {
#if defined(__x86_64__)
  if (dwarf == DWARF_PC) {
    push_number(stack, sum((int64_t)pc, offset));
    return;
  }
#else
  (void)pc;
#endif
  unsigned base = hk_frame_register_of(dwarf);
  if (base == hk_frame_no_register) stack->failed = true;
  push(stack, (hk_place_t){.base = base, .offset = offset});
}

static void push_moved(expression_t *stack, hk_place_t place, int64_t distance) {
  if (place.is_in_memory) {
    place.extra = sum(place.extra, distance);
  } else {
    place.offset = sum(place.offset, distance);
  }
  push(stack, place);
}

static void push_sum(expression_t *stack) {
  hk_place_t second = pop(stack), first = pop(stack);
  if (second.base == hk_frame_no_register) {
    push_moved(stack, first, second.offset);
  } else if (first.base == hk_frame_no_register) {
    push_moved(stack, second, first.offset);
  } else {
    stack->failed = true;
  }
}

static void push_content(expression_t *stack) {
  hk_place_t place = pop(stack);
  if (place.base == hk_frame_no_register || place.is_in_memory) stack->failed = true;
  place.is_in_memory = true;
  push(stack, place);
}

static void calculate(expression_t *stack, unsigned operation) {
  int64_t second = pop_number(stack), first = pop_number(stack);
  switch (operation) {
    case op_and:
      push_number(stack, first & second);
      return;
    case op_ge:
      push_number(stack, first >= second);
      return;
    case op_minus:
      push_number(stack, (int64_t)((uint64_t)first - (uint64_t)second));
      return;
    default: /* op_shl */
      push_number(stack, second < 0 || second > 63 ? 0 : (int64_t)((uint64_t)first << second));
      return;
  }
}

/* Runs an operation that reads a number and pushes it. Returns false for all others. */
static bool run_constant(hk_memory_reader_t *reader, expression_t *stack, unsigned operation) {
  switch (operation) {
    case op_const1u:
      push_number(stack, (int64_t)hk_memory_reader_number(reader, 1));
      return true;
    case op_const1s:
      push_number(stack, (int8_t)hk_memory_reader_number(reader, 1));
      return true;
    case op_const2u:
      push_number(stack, (int64_t)hk_memory_reader_number(reader, 2));
      return true;
    case op_const2s:
      push_number(stack, (int16_t)hk_memory_reader_number(reader, 2));
      return true;
    case op_const4u:
      push_number(stack, (int64_t)hk_memory_reader_number(reader, 4));
      return true;
    case op_const4s:
      push_number(stack, (int32_t)hk_memory_reader_number(reader, 4));
      return true;
    case op_constu:
      push_number(stack, (int64_t)hk_memory_reader_uleb(reader));
      return true;
    case op_consts:
      push_number(stack, hk_memory_reader_sleb(reader));
      return true;
    default:
      return false;
  }
}

static void run_other(hk_memory_reader_t *reader, expression_t *stack, unsigned operation) {
  switch (operation) {
    case op_plus_uconst:
      push_moved(stack, pop(stack), (int64_t)hk_memory_reader_uleb(reader));
      return;
    case op_plus:
      push_sum(stack);
      return;
    case op_deref:
      push_content(stack);
      return;
    case op_and:
    case op_ge:
    case op_minus:
    case op_shl:
      calculate(stack, operation);
      return;
    default:
      stack->failed = true;
      return;
  }
}

static void run_operation(hk_memory_reader_t *reader, expression_t *stack, uintptr_t pc) {
  unsigned operation = (unsigned)hk_memory_reader_number(reader, 1);
  if (operation >= op_lit0 && operation <= op_lit31) {
    push_number(stack, operation - op_lit0);
  } else if (operation >= op_breg0 && operation <= op_breg31) {
    push_register(stack, operation - op_breg0, hk_memory_reader_sleb(reader), pc);
  } else if (!run_constant(reader, stack, operation)) {
    run_other(reader, stack, operation);
  }
}

bool hk_place_read(hk_memory_reader_t *reader, uintptr_t pc, hk_place_t *place) {
  uint64_t length = hk_memory_reader_uleb(reader);
  uintptr_t end = reader->at + length, whole_end = reader->end;
  if (reader->failed || length > whole_end - reader->at) {
    reader->failed = true;
    return false;
  }
  reader->end = end;
  expression_t stack = {.count = 0};
  while (reader->at < end && !stack.failed && !reader->failed) run_operation(reader, &stack, pc);
  hk_memory_reader_seek(reader, end, whole_end);
  *place = pop(&stack);
  return !stack.failed && !reader->failed && place->base != hk_frame_no_register;
}
