/* Common code of the fuzz targets. A target is a file <name>_fuzzer.c with libFuzzer's entry point. It reads one
 * input and checks what the tested reader promises. tests/fuzz/run_corpus.cc runs the same targets without
 * libFuzzer. */
#ifndef HK_TESTS_FUZZ_FUZZ_H
#define HK_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The build may rename it, so that one program has several targets. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program when the condition is false, as a sanitizer's finding does. */
#define FUZZ_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (0)

/* The unread rest of an input. */
typedef struct {
  const uint8_t *at;
  size_t left;
} fuzz_input_t;

/* Reads a number of `bytes` bytes, the lowest first. Missing bytes are 0. */
static inline uint64_t fuzz_number(fuzz_input_t *input, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes && input->left > 0; i++, input->left--) value |= (uint64_t)*input->at++ << (8 * i);
  return value;
}

#ifdef __cplusplus
}
#endif

#endif /* HK_TESTS_FUZZ_FUZZ_H */
