/* os/kernel_file, node_list, huge_setting, sandbox_status and thread_call: the input is a file of the kernel. Each
 * reader has to agree with a slower one that has the whole text. */
#include <string.h>

#include "fuzz.h"
#include "kernel_text.h"
#include "os/huge_setting.h"
#include "os/kernel_file.h"
#include "os/node_list.h"
#include "os/sandbox_status.h"
#include "os/thread_call.h"

#define PATH "/a/file"
#define DIGITS_MAX 9 /* all numbers with as many digits fit into 32 bits */

static const uint8_t *text;
static size_t text_size;

/* Copies the next line that is not too long, from *at on. Returns false at the end. */
static bool next_line(size_t *at, char *line) {
  while (*at < text_size) {
    const uint8_t *start = text + *at, *end = memchr(start, '\n', text_size - *at);
    size_t length = end == NULL ? text_size - *at : (size_t)(end - start);
    *at += length + (end != NULL);
    if (length >= HK_KERNEL_LINE_BYTES) continue;
    memcpy(line, start, length);
    line[length] = '\0';
    return true;
  }
  return false;
}

static void check_lines(void) {
  char expected[HK_KERNEL_LINE_BYTES], line[HK_KERNEL_LINE_BYTES];
  hk_kernel_file_t file;
  size_t at = 0;
  FUZZ_CHECK(hk_kernel_file_open(&file, PATH));
  while (next_line(&at, expected)) FUZZ_CHECK(hk_kernel_file_line(&file, line) && strcmp(line, expected) == 0);
  FUZZ_CHECK(!hk_kernel_file_line(&file, line));
  hk_kernel_file_close(&file);
}

/* Checks node lists whose numbers are all small. */
static void check_nodes(void) {
  unsigned found = hk_node_list_read(PATH), highest = 0, number = 0, digits = 0;
  bool has_number = false, has_many = false;
  for (size_t i = 0; i <= text_size; i++) {
    char character = i < text_size ? (char)text[i] : '\0';
    if (character >= '0' && character <= '9') {
      number = number * 10 + (unsigned)(character - '0');
      has_number = true;
      if (++digits > DIGITS_MAX) return;
      continue;
    }
    highest = number > highest ? number : highest;
    number = digits = 0;
    has_many |= character == '-' || character == ',';
  }
  FUZZ_CHECK(found == (has_many && has_number ? highest + 1 : has_number));
}

static void check_huge(void) {
  char line[HK_KERNEL_LINE_BYTES];
  size_t at = 0;
  hk_os_huge_t expected = hk_os_huge_never;
  if (next_line(&at, line)) {
    const char *word = strchr(line, '[');
    if (word != NULL && strncmp(word, "[always]", 8) == 0) expected = hk_os_huge_everywhere;
    if (word != NULL && strncmp(word, "[madvise]", 9) == 0) expected = hk_os_huge_on_request;
  }
  FUZZ_CHECK(hk_huge_setting_read(PATH) == expected);
}

static void check_sandbox(void) {
  char line[HK_KERNEL_LINE_BYTES];
  hk_sandbox_t expected = hk_sandbox_none;
  for (size_t at = 0; next_line(&at, line);) {
    if (strncmp(line, "Seccomp:", 8) != 0) continue;
    size_t zeros = line[8] == '\t' ? strspn(line + 9, "0") : 0;
    bool is_zero = zeros > 0 && strspn(line + 9 + zeros, "0123456789") == 0;
    expected = is_zero ? hk_sandbox_none : hk_sandbox_inherited; /* the last line counts */
  }
  FUZZ_CHECK(hk_sandbox_status_read(PATH) == expected);
}

/* Writes a thread's system call as the kernel does, and checks that it reads the same. */
static void check_thread(void) {
  char line[HK_KERNEL_LINE_BYTES], again[HK_KERNEL_LINE_BYTES];
  size_t at = 0;
  if (!next_line(&at, line)) return;
  hk_thread_call_t call = hk_thread_call_parse(line);
  unsigned first = call.state == hk_thread_calls ? 0 : hk_thread_arguments;
  FUZZ_CHECK(call.state <= hk_thread_is_over);
  if (call.state == hk_thread_runs) {
    for (unsigned i = 0; i < hk_thread_words; i++) FUZZ_CHECK(call.word[i] == 0);
    return;
  }
  int length = snprintf(again, sizeof again, "%d", call.state == hk_thread_calls ? 7 : -1);
  for (unsigned i = first; i < hk_thread_words; i++) {
    length += snprintf(again + length, sizeof again - (size_t)length, " 0x%lx", (unsigned long)call.word[i]);
  }
  hk_thread_call_t same = hk_thread_call_parse(again);
  FUZZ_CHECK(same.state == call.state && memcmp(same.word, call.word, sizeof call.word) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kernel_text_load(data, size);
  text = kernel_text_find(PATH, &text_size);
  if (text == NULL) {
    FUZZ_CHECK(hk_node_list_read(PATH) == 0 && hk_huge_setting_read(PATH) == hk_os_huge_never);
    FUZZ_CHECK(hk_sandbox_status_read(PATH) == hk_sandbox_inherited);
    return 0;
  }
  check_lines();
  check_nodes();
  check_huge();
  check_sandbox();
  check_thread();
  FUZZ_CHECK(kernel_text_open_count() == 0);
  return 0;
}
