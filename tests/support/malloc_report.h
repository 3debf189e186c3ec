/* tests/support/malloc_report.h - reads the text of hakmem_malloc_info. */
#ifndef HK_TESTS_SUPPORT_MALLOC_REPORT_H
#define HK_TESTS_SUPPORT_MALLOC_REPORT_H

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "hakmem/hakmem.h"

namespace hk_test {

/* Returns the whole text of hakmem_malloc_info; an empty one when it fails. */
inline std::string MallocInfoText() {
  char *text = nullptr;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream == nullptr) return "";
  int result = hakmem_malloc_info(0, stream);
  std::fclose(stream);
  std::string copy(text, result == 0 ? size : 0);
  std::free(text);
  return copy;
}

/* Returns the counter `name` of src/policy/stat.def; nothing when the text does not have it. */
inline std::optional<size_t> ReadCounter(const std::string &name) {
  std::string text = MallocInfoText();
  size_t at = text.find("\"" + name + "\"");
  if (at == std::string::npos) return std::nullopt;
  size_t end = text.find('>', at);
  /* The number is an attribute's value: name="refill" count="17". */
  for (size_t i = at + name.size() + 2; i < end && i + 1 < text.size(); i++) {
    if (text[i] == '"' && text[i + 1] >= '0' && text[i + 1] <= '9') return std::strtoull(&text[i + 1], nullptr, 10);
  }
  return std::nullopt;
}

} /* namespace hk_test */

#endif
