/* bench/micro/bench_options.c - the command line of bench.h. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The common options come first, so that one table is searched, explained and reported. */
enum { option_ops, option_seed, option_seconds_us, option_threads, common_count };
static bench_option_t common[common_count] = {
    {"ops", "operations, all threads together", 0, 1, (uint64_t)1 << 48, NULL, NULL},
    {"seed", "of everything that is random", 0, 0, UINT64_MAX, NULL, NULL},
    {"seconds", "run so long instead of so many operations", 0, 0, 0, NULL, NULL},
    {"threads", "how many", 0, 1, bench_threads_most, NULL, NULL},
};

static void print_option(const bench_option_t *option) {
  fprintf(stderr, "  --%-14s %s (", option->name, option->help);
  for (size_t i = 0; option->words && option->words[i]; ++i) fprintf(stderr, "%s%s", i ? "|" : "", option->words[i]);
  if (option->text) {
    fprintf(stderr, "default %s)\n", *option->text ? option->text : "none");
  } else if (option->words) {
    fprintf(stderr, ", default %s)\n", option->words[option->value]);
  } else if (option == &common[option_seconds_us]) {
    fputs("default: fixed work)\n", stderr);
  } else {
    fprintf(stderr, "default %llu)\n", (unsigned long long)option->value);
  }
}

static void print_help(const bench_t *bench) {
  fprintf(stderr, "%s: %s\nusage: %s [--option value]...\n", bench->name, bench->help, bench_program);
  for (size_t i = 0; i < common_count; ++i) {
    if (i != option_threads || !bench->fixed_threads) print_option(&common[i]);
  }
  for (size_t i = 0; i < bench->option_count; ++i) print_option(&bench->options[i]);
}

_Noreturn static void usage_error(const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "%s: ", bench_program);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputs(" (--help lists the options)\n", stderr);
  exit(2);
}

void bench_usage_error(const bench_t *bench, const char *what) {
  (void)bench;
  usage_error("%s", what);
}

static bench_option_t *find_option(const bench_t *bench, const char *name) {
  for (size_t i = 0; i < common_count; ++i) {
    const bool hidden = i == option_threads && bench->fixed_threads;
    if (!hidden && strcmp(common[i].name, name) == 0) return &common[i];
  }
  for (size_t i = 0; i < bench->option_count; ++i) {
    if (strcmp(bench->options[i].name, name) == 0) return &bench->options[i];
  }
  return NULL;
}

static void read_seconds(bench_t *bench, const char *word) {
  char *end;
  bench->seconds = strtod(word, &end);
  if (end == word || *end || !(bench->seconds > 0 && bench->seconds <= 86400)) {
    usage_error("--seconds %s: expected a number above 0, at most 86400", word);
  }
}

static void read_value(bench_option_t *option, const char *word) {
  if (option->text) {
    option->text = word;
    return;
  }
  for (size_t i = 0; option->words && option->words[i]; ++i) {
    if (strcmp(option->words[i], word) == 0) {
      option->value = i;
      return;
    }
  }
  char *end = NULL;
  errno = 0;
  const uint64_t value = strtoull(word, &end, 10);
  const bool is_number = word[0] >= '0' && word[0] <= '9' && *end == '\0' && errno == 0;
  if (option->words) usage_error("--%s %s: no such choice", option->name, word);
  if (!is_number || value < option->least || value > option->most) {
    usage_error("--%s %s: expected a whole number from %llu to %llu", option->name, word,
                (unsigned long long)option->least, (unsigned long long)option->most);
  }
  option->value = value;
}

void bench_start(bench_t *bench, int argc, char **argv) {
  if (argc > 0) bench_program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
  common[option_ops].value = bench->ops;
  common[option_seed].value = bench->seed;
  common[option_threads].value = bench->threads;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) {
      print_help(bench);
      exit(0);
    }
    bench_option_t *option = strncmp(argv[i], "--", 2) == 0 ? find_option(bench, argv[i] + 2) : NULL;
    if (option == NULL) usage_error("no option %s", argv[i]);
    if (++i == argc) usage_error("--%s needs a value", option->name);
    if (option == &common[option_seconds_us]) {
      read_seconds(bench, argv[i]);
    } else {
      read_value(option, argv[i]);
    }
  }
  bench->ops = common[option_ops].value;
  bench->seed = common[option_seed].value;
  bench->threads = (unsigned)common[option_threads].value;
}
