/* serve/serve_command.c - L10. See serve_command.h. */
#include "serve/serve_command.h"

#include <stddef.h>
#include <stdint.h>

#include "api/process_purge.h"
#include "base/text.h"
#include "inspect/describe.h"
#include "report/leak_out.h"
#include "report/report.h"
#include "serve/guard_command.h"
#include "serve/profile_command.h"

/* Hexadecimal digits of an address. */
#define DIGITS_MAX 16

/* Answers a command. `arguments` is the text behind the command's words, empty for most commands. */
typedef const char *answer_t(hk_format_t *out, const char *arguments);

/* Answers a command that begins a run of the heap profile, which ends with the client. */
typedef const char *start_t(hk_format_t *out, const char *arguments, uint64_t *run);

/* Answers a command that may take long. */
typedef const char *scan_t(hk_format_t *out, const char *arguments, bool (*may_go_on)(void));

/* Exactly one of `answer`, `start` and `scan` is set. */
typedef struct {
  const char *words;
  answer_t *answer;
  start_t *start;
  scan_t *scan;
} command_t;

/* ---- The commands. */

/* The tool looks for this text in a program's file too: it recognizes programs that are linked with the static
 * archive. */
static const char *protocol(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_format_text(out, "hakmem: this process answers, protocol 1\n");
  return NULL;
}

static const char *stats_json(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_report_json(out);
  return NULL;
}

static const char *stats_text(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_report_text(out);
  return NULL;
}

static const char *stats_openmetrics(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_report_openmetrics(out);
  return NULL;
}

static const char *map(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_report_map(out);
  return NULL;
}

static const char *collect(hk_format_t *out, const char *arguments) {
  (void)arguments;
  hk_format_print(out, "%u\n", (uint64_t)hk_process_purge_everywhere(0));
  return NULL;
}

static const char *describe(hk_format_t *out, const char *arguments) {
  const char *digits = hk_text_after(arguments, "0x");
  if (digits == NULL) digits = hk_text_after(arguments, "0X");
  if (digits == NULL) digits = arguments;
  uint64_t address;
  const char *end = hk_text_hex(digits, &address);
  if (end == NULL || *end != '\0' || end - digits > DIGITS_MAX) return "describe needs a hexadecimal address";
  hk_describe(out, address);
  hk_format_text(out, "\n");
  return NULL;
}

static const command_t commands[] = {
    {"protocol", .answer = protocol},
    {"stats json", .answer = stats_json},
    {"stats text", .answer = stats_text},
    {"stats openmetrics", .answer = stats_openmetrics},
    {"map", .answer = map},
    {"collect", .answer = collect},
    {"describe", .answer = describe},
    {"profile start", .start = hk_profile_command_start},
    {"profile stop", .answer = hk_profile_command_stop},
    {"profile state", .answer = hk_profile_command_state},
    {"profile pprof", .answer = hk_profile_command_pprof},
    {"profile sites", .answer = hk_profile_command_sites},
    {"leaks", .scan = hk_leak_out_command},
    {"guard start", .answer = hk_guard_command_start},
    {"guard stop", .answer = hk_guard_command_stop},
    {"guard state", .answer = hk_guard_command_state},
};

/* ---- The command of a line. */

/* Returns the text behind `words` and one space; NULL when the line does not begin with `words`. */
static const char *arguments_of(const char *line, const char *words) {
  const char *rest = hk_text_after(line, words);
  if (rest == NULL) return NULL;
  if (*rest == ' ') return rest + 1;
  return *rest == '\0' ? rest : NULL;
}

const char *hk_serve_command(hk_format_t *out, const char *line, uint64_t *run, bool (*may_go_on)(void)) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const char *arguments = arguments_of(line, commands[i].words);
    if (arguments == NULL) continue;
    if (commands[i].start != NULL) return commands[i].start(out, arguments, run);
    if (commands[i].scan != NULL) return commands[i].scan(out, arguments, may_go_on);
    return commands[i].answer(out, arguments);
  }
  return "unknown command";
}
