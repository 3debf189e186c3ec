/* unwind/unwind_table, call_frame and place: the input is a byte that selects one of them, an address, and a table,
 * instructions or an expression. A found rule has to have valid fields, and a second search has to find the same.
 * Instructions without an effect have to leave the rule as it is. */
#include "unwind/unwind_table.h"

#include <string.h>

#include "far_memory.h"
#include "fuzz.h"
#include "unwind/call_frame.h"
#include "unwind/place.h"

#define TABLE_MAX 4096
/* The values of most tables, or those of the input. */
#define CODE_START FAR_START

static hk_memory_reader_t reader;

static void check_rule(const hk_frame_rule_t *rule) {
  FUZZ_CHECK(rule->kind == hk_frame_ruled || rule->kind == hk_frame_last);
  FUZZ_CHECK(rule->base < hk_frame_register_count);
  FUZZ_CHECK(rule->is_in_memory <= 1);
  FUZZ_CHECK(rule->from_base >> hk_frame_register_count == 0);
}

static bool is_same(const hk_frame_rule_t *a, const hk_frame_rule_t *b) {
  return a->kind == b->kind && a->base == b->base && a->is_in_memory == b->is_in_memory &&
         a->from_base == b->from_base && a->offset == b->offset && a->extra == b->extra &&
         memcmp(a->saved, b->saved, sizeof a->saved) == 0;
}

/* The input is an index, whose entries lie where it says. */
static void fuzz_table(fuzz_input_t *input) {
  hk_frame_rule_t rule, again;
  uintptr_t pc = CODE_START + (uintptr_t)fuzz_number(input, 2);
  uintptr_t index = far_memory_put(input->at, input->left);
  bool is_found = hk_unwind_table_find(index, pc, &rule, &reader);
  FUZZ_CHECK(hk_unwind_table_find(index, pc, &again, &reader) == is_found);
  if (!is_found) return;
  FUZZ_CHECK(is_same(&rule, &again));
  check_rule(&rule);
}

/* The input is the length of the common instructions, the alignments, and all instructions. */
static void fuzz_instructions(fuzz_input_t *input) {
  static uint8_t padded[TABLE_MAX + 8];
  hk_frame_rule_t rule, again;
  hk_call_frame_t frame = {.start = CODE_START, .pointer_encoding = 0};
  uintptr_t pc = CODE_START + (uintptr_t)fuzz_number(input, 2);
  size_t common = (size_t)fuzz_number(input, 1);
  frame.code_align = fuzz_number(input, 1);
  frame.data_align = (int8_t)fuzz_number(input, 1);
  if (common > input->left) common = input->left;

  /* Compares the rules with and without instructions at the end that have no effect. */
  size_t size = input->left;
  memset(padded, 0, sizeof padded);
  memcpy(padded, input->at, size);
  uintptr_t start = far_memory_put(padded, size + 8);
  frame.common.start = start;
  frame.common.end = frame.function.start = start + common;
  frame.function.end = start + size;
  hk_memory_reader_init(&reader, 0, 0);
  if (!hk_call_frame_rule(&reader, &frame, pc, &rule)) return;
  check_rule(&rule);
  frame.function.end = start + size + 8;
  hk_memory_reader_init(&reader, 0, 0);
  FUZZ_CHECK(hk_call_frame_rule(&reader, &frame, pc, &again) && is_same(&rule, &again));
}

static void fuzz_place(fuzz_input_t *input) {
  hk_place_t place;
  uintptr_t start = far_memory_put(input->at, input->left);
  hk_memory_reader_init(&reader, start, start + input->left);
  bool is_found = hk_place_read(&reader, CODE_START, &place);
  if (is_found) FUZZ_CHECK(place.base < hk_frame_register_count && !reader.failed);
  if (!reader.failed) FUZZ_CHECK(reader.at > start && reader.at <= start + input->left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input_t input = {data, size < TABLE_MAX ? size : TABLE_MAX};
  switch (fuzz_number(&input, 1) % 3) {
    case 0:
      fuzz_table(&input);
      break;
    case 1:
      fuzz_instructions(&input);
      break;
    default:
      fuzz_place(&input);
      break;
  }
  return 0;
}
