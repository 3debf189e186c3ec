/* bench/micro/trace_file.h - reads an allocation trace (bench/traces/README.md has the format), plain or packed by
 * gzip, into an array of events. */
#ifndef BENCH_TRACE_FILE_H
#define BENCH_TRACE_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "gunzip.h"

typedef struct {
  char kind; /* '+' malloc, '0' calloc, '=' realloc, '-' free */
  uint32_t slot;
  uint32_t size;
} event_t;

typedef struct {
  event_t *events;
  uint64_t event_count;
  uint64_t slot_count; /* the most blocks that live at once */
} trace_t;

/* Where the reader is, and which slots are free: a new block takes the slot that became free last. */
typedef struct {
  const bench_t *bench;
  char *at;
  uint64_t line;
  uint32_t *free_slots;
  uint64_t free_count;
  bool *is_live;
} trace_reader_t;

static _Noreturn void trace_error(const trace_reader_t *reader, const char *what) {
  static char text[128];
  snprintf(text, sizeof text, "--file: line %llu: %s", (unsigned long long)reader->line, what);
  bench_usage_error(reader->bench, text);
}

/* Unpacks the text of a gzip file, with a zero at its end. */
static char *trace_unpacked(const bench_t *bench, void *packed, size_t size) {
  const size_t text_size = gunzip_unpacked_size(packed, size);
  /* Deflate packs at most 1032 bytes into one: more is a damaged length, not a reason to map gigabytes. */
  char *text = text_size / 1032 <= size ? bench_pages(text_size + 1) : NULL;
  if (text == NULL || !gunzip_unpack(packed, size, text)) bench_usage_error(bench, "--file: the gzip file is damaged");
  munmap(packed, size + 1);
  return text;
}

/* The file's text, with a zero at its end. */
static char *trace_text(const bench_t *bench, const char *path) {
  struct stat status;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    bench_usage_error(bench, *path ? "--file: no trace can be read there" : "--file is needed: which trace?");
  }
  const size_t size = (size_t)status.st_size;
  char *bytes = bench_pages(size + 1);
  for (ssize_t at = 0, got; at < status.st_size; at += got) {
    got = read(file, bytes + at, (size_t)(status.st_size - at));
    if (got <= 0) bench_usage_error(bench, "--file: no trace can be read there");
  }
  close(file);
  return gunzip_is_packed(bytes, size) ? trace_unpacked(bench, bytes, size) : bytes;
}

static uint32_t trace_number(trace_reader_t *reader, uint64_t limit) {
  char *end;
  const bool is_digit = *reader->at >= '0' && *reader->at <= '9';
  const unsigned long long number = strtoull(reader->at, &end, 10);
  if (!is_digit || number >= limit) trace_error(reader, "a number is missing or too large");
  reader->at = end;
  return (uint32_t)number;
}

static event_t trace_event(trace_reader_t *reader, trace_t *trace) {
  event_t event = {*reader->at++, 0, 0};
  const bool is_new = event.kind == '+' || event.kind == '0', is_end = event.kind == '-';
  if (!is_new && !is_end && event.kind != '=') trace_error(reader, "it begins with none of + 0 = - #");
  if (is_new) {
    event.slot = reader->free_count ? reader->free_slots[--reader->free_count] : (uint32_t)trace->slot_count++;
  } else {
    event.slot = trace_number(reader, trace->slot_count);
    if (!reader->is_live[event.slot]) trace_error(reader, "no block lives in that slot");
  }
  if (event.kind == '=' && *reader->at++ != ' ') trace_error(reader, "a slot and a size are separated by a space");
  if (!is_end) event.size = trace_number(reader, (uint64_t)1 << 31);
  if (is_end) reader->free_slots[reader->free_count++] = event.slot;
  reader->is_live[event.slot] = !is_end;
  return event;
}

static trace_t trace_read(const bench_t *bench, const char *path) {
  trace_t trace = {0};
  trace_reader_t reader = {.bench = bench, .at = trace_text(bench, path), .line = 1};
  uint64_t lines = 1;
  for (const char *c = reader.at; *c; ++c) lines += *c == '\n';
  trace.events = bench_pages(lines * sizeof *trace.events);
  reader.free_slots = bench_pages(lines * sizeof *reader.free_slots);
  reader.is_live = bench_pages(lines * sizeof *reader.is_live);
  for (; *reader.at; ++reader.line) {
    if (*reader.at == '#') {
      reader.at += strcspn(reader.at, "\n");
    } else if (*reader.at != '\n') {
      trace.events[trace.event_count++] = trace_event(&reader, &trace);
    }
    if (*reader.at != '\n' && *reader.at != '\0') trace_error(&reader, "something follows");
    reader.at += *reader.at == '\n';
  }
  if (trace.event_count == 0) bench_usage_error(bench, "--file: a trace without a single block");
  return trace;
}

#endif /* BENCH_TRACE_FILE_H */
