/* unwind/call_frame.c - L6. See call_frame.h. The instructions build rows of a table, one after the other. Each row
 * holds from an address on; the result is the last row that begins at or before the wanted address. A row is a rule. */
#include "unwind/call_frame.h"

#include "unwind/place.h"

/* Instructions: the first three are the upper two bits of a byte, the others a whole byte. */
enum {
  op_advance = 0x40, /* the rest of the byte is the operand, here and in the next two */
  op_offset = 0x80,
  op_restore = 0xc0,
  op_nop = 0x00,
  op_set_location = 0x01,
  op_advance1 = 0x02,
  op_advance2 = 0x03,
  op_advance4 = 0x04,
  op_offset_extended = 0x05,
  op_restore_extended = 0x06,
  op_undefined = 0x07,
  op_same_value = 0x08,
  op_register = 0x09,
  op_remember = 0x0a,
  op_recall = 0x0b,
  op_end = 0x0c,
  op_end_register = 0x0d,
  op_end_offset = 0x0e,
  op_end_expression = 0x0f,
  op_expression = 0x10,
  op_offset_signed = 0x11,
  op_end_signed = 0x12,
  op_end_offset_signed = 0x13,
  op_value_offset = 0x14,
  op_value_offset_signed = 0x15,
  op_value_expression = 0x16,
  op_negate_signing = 0x2d, /* arm64: return addresses become signed or unsigned. Walks always strip the signature */
  op_arguments_size = 0x2e,
  op_offset_negative = 0x2f,
};

/* Compilers nest op_remember once. */
#define REMEMBERED_MAX 4

typedef struct {
  hk_memory_reader_t *reader;
  const hk_call_frame_t *frame;
  uintptr_t pc;       /* the wanted address */
  uintptr_t location; /* the address from which the row holds */
  hk_frame_rule_t row;
  hk_frame_rule_t initial; /* the row after the common instructions */
  hk_frame_rule_t remembered[REMEMBERED_MAX];
  unsigned remembered_count;
} machine_t;

static void fail(machine_t *machine) { machine->reader->failed = true; }

/* ---- Where a register is saved. */

/* Returns the distance in words; HK_SAVED_LOST when a rule cannot hold it. */
static int16_t words_of(int64_t bytes) {
  if (bytes % 8 != 0 || bytes / 8 <= HK_SAVED_LOST || bytes / 8 > INT16_MAX) return HK_SAVED_LOST;
  return (int16_t)(bytes / 8);
}

static void set_saved(machine_t *machine, unsigned number, int16_t saved, bool is_from_base) {
  if (number == hk_frame_no_register) return;
  uint8_t bit = (uint8_t)(1u << number);
  machine->row.saved[number] = saved;
  machine->row.from_base = (uint8_t)(is_from_base ? machine->row.from_base | bit : machine->row.from_base & ~bit);
}

static unsigned read_register(machine_t *machine) {
  return hk_frame_register_of(hk_memory_reader_uleb(machine->reader));
}

static int64_t scaled(const machine_t *machine, int64_t factor) {
  return (int64_t)((uint64_t)factor * (uint64_t)machine->frame->data_align);
}

static void save_at(machine_t *machine, unsigned number, int64_t factor) {
  set_saved(machine, number, words_of(scaled(machine, factor)), false);
}

static void restore(machine_t *machine, unsigned number) {
  if (number == hk_frame_no_register) return;
  set_saved(machine, number, machine->initial.saved[number], (machine->initial.from_base >> number & 1) != 0);
}

/* Saves a register at an expression's place. The place must be counted from the register that the frame's end is
 * counted from: compilers write no other. Otherwise the register's value is lost. */
static void save_at_expression(machine_t *machine) {
  unsigned number = read_register(machine);
  hk_place_t place;
  bool is_kept =
      hk_place_read(machine->reader, machine->pc, &place) && !place.is_in_memory && place.base == machine->row.base;
  set_saved(machine, number, is_kept ? words_of(place.offset) : HK_SAVED_LOST, true);
}

/* ---- Where the frame ends. */

static void set_offset(machine_t *machine, int64_t offset) {
  if (offset > INT32_MAX || offset < INT32_MIN) {
    fail(machine);
    return;
  }
  machine->row.offset = (int32_t)offset;
}

static void set_end(machine_t *machine, unsigned base, int64_t offset) {
  machine->row.base = (uint8_t)base;
  machine->row.is_in_memory = 0;
  machine->row.extra = 0;
  set_offset(machine, offset);
}

static void set_end_expression(machine_t *machine) {
  hk_place_t place;
  if (!hk_place_read(machine->reader, machine->pc, &place) || place.extra > INT32_MAX || place.extra < INT32_MIN) {
    set_end(machine, hk_frame_no_register, 0);
    return;
  }
  set_end(machine, place.base, place.offset);
  machine->row.is_in_memory = place.is_in_memory;
  machine->row.extra = (int32_t)place.extra;
}

/* ---- Rows. */

static void remember(machine_t *machine) {
  if (machine->remembered_count == REMEMBERED_MAX) {
    fail(machine);
    return;
  }
  machine->remembered[machine->remembered_count++] = machine->row;
}

static void recall(machine_t *machine) {
  if (machine->remembered_count == 0) {
    fail(machine);
    return;
  }
  machine->row = machine->remembered[--machine->remembered_count];
}

static void advance(machine_t *machine, uint64_t factor) { machine->location += factor * machine->frame->code_align; }

/* ---- Instructions. */

/* Runs an instruction that changes the row's frame end. Returns false for all others. */
static bool run_end(machine_t *machine, unsigned operation) {
  hk_memory_reader_t *reader = machine->reader;
  unsigned number;
  switch (operation) {
    case op_end:
      number = read_register(machine);
      set_end(machine, number, (int64_t)hk_memory_reader_uleb(reader));
      return true;
    case op_end_signed:
      number = read_register(machine);
      set_end(machine, number, scaled(machine, hk_memory_reader_sleb(reader)));
      return true;
    case op_end_register:
      machine->row.base = (uint8_t)read_register(machine);
      return true;
    case op_end_offset:
      set_offset(machine, (int64_t)hk_memory_reader_uleb(reader));
      return true;
    case op_end_offset_signed:
      set_offset(machine, scaled(machine, hk_memory_reader_sleb(reader)));
      return true;
    case op_end_expression:
      set_end_expression(machine);
      return true;
    default:
      return false;
  }
}

/* Runs an instruction that changes where a register is saved. Returns false for all others. */
static bool run_saved(machine_t *machine, unsigned operation) {
  hk_memory_reader_t *reader = machine->reader;
  unsigned number;
  switch (operation) {
    case op_offset_extended:
      number = read_register(machine);
      save_at(machine, number, (int64_t)hk_memory_reader_uleb(reader));
      return true;
    case op_offset_signed:
      number = read_register(machine);
      save_at(machine, number, hk_memory_reader_sleb(reader));
      return true;
    case op_offset_negative:
      number = read_register(machine);
      save_at(machine, number, -(int64_t)(hk_memory_reader_uleb(reader) & INT64_MAX));
      return true;
    case op_restore_extended:
      restore(machine, read_register(machine));
      return true;
    case op_same_value:
      set_saved(machine, read_register(machine), HK_SAVED_SAME, false);
      return true;
    case op_undefined:
      set_saved(machine, read_register(machine), HK_SAVED_LOST, false);
      return true;
    case op_register:
    case op_value_offset:
    case op_value_offset_signed: /* the unsigned reader skips a signed number as well */
      number = read_register(machine);
      (void)hk_memory_reader_uleb(reader);
      set_saved(machine, number, HK_SAVED_LOST, false);
      return true;
    case op_expression:
      save_at_expression(machine);
      return true;
    case op_value_expression:
      number = read_register(machine);
      hk_memory_reader_skip(reader, hk_memory_reader_uleb(reader));
      set_saved(machine, number, HK_SAVED_LOST, false);
      return true;
    default:
      return false;
  }
}

static void run_other(machine_t *machine, unsigned operation) {
  hk_memory_reader_t *reader = machine->reader;
  switch (operation) {
    case op_nop:
    case op_negate_signing:
      return;
    case op_set_location:
      machine->location = hk_memory_reader_pointer(reader, machine->frame->pointer_encoding, 0);
      return;
    case op_advance1:
      advance(machine, hk_memory_reader_number(reader, 1));
      return;
    case op_advance2:
      advance(machine, hk_memory_reader_number(reader, 2));
      return;
    case op_advance4:
      advance(machine, hk_memory_reader_number(reader, 4));
      return;
    case op_remember:
      remember(machine);
      return;
    case op_recall:
      recall(machine);
      return;
    case op_arguments_size:
      (void)hk_memory_reader_uleb(reader);
      return;
    default:
      fail(machine);
      return;
  }
}

static void run_instruction(machine_t *machine) {
  unsigned byte = (unsigned)hk_memory_reader_number(machine->reader, 1), rest = byte & 0x3f;
  switch (byte & 0xc0) {
    case op_advance:
      advance(machine, rest);
      return;
    case op_offset:
      save_at(machine, hk_frame_register_of(rest), (int64_t)hk_memory_reader_uleb(machine->reader));
      return;
    case op_restore:
      restore(machine, hk_frame_register_of(rest));
      return;
    default:
      if (!run_end(machine, byte) && !run_saved(machine, byte)) run_other(machine, byte);
      return;
  }
}

/* Runs instructions up to the row that begins behind the address, or up to their end. */
static void run(machine_t *machine, const hk_call_frame_code_t *code) {
  hk_memory_reader_seek(machine->reader, code->start, code->end);
  while (machine->reader->at < code->end && !machine->reader->failed && machine->location <= machine->pc) {
    run_instruction(machine);
  }
}

bool hk_call_frame_rule(hk_memory_reader_t *reader, const hk_call_frame_t *frame, uintptr_t pc, hk_frame_rule_t *rule) {
  machine_t machine;
  machine.reader = reader;
  machine.frame = frame;
  machine.pc = pc;
  machine.location = frame->start;
  machine.remembered_count = 0;
  machine.row = (hk_frame_rule_t){.kind = hk_frame_ruled, .base = hk_frame_no_register};
  for (unsigned i = 0; i < hk_frame_register_count; i++) machine.row.saved[i] = HK_SAVED_SAME;
  machine.initial = machine.row;
  run(&machine, &frame->common);
  machine.initial = machine.row;
  run(&machine, &frame->function);
  *rule = machine.row;
  return !reader->failed && rule->base != hk_frame_no_register;
}
