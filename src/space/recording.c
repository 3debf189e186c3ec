/* space/recording.c - L3. See recording.h.
 *
 * No thread changes a chunk that waits to be written, and its place in the file is fixed. If a thread still writes it
 * when the process ends, hk_recording_finish writes the same bytes to the same place, and waits for no thread.
 */
#include "space/recording.h"

#include "os/growing_file.h"
#include "os/lock.h"
#include "os/new_file.h"
#include "os/os.h"
#include "policy/level_trace.h"
#include "policy/option.h"
#include "policy/output_path.h"

hk_recording_state_t hk_recording_state;

/* Guarded by hk_lock_space. */
static struct {
  hk_level_trace_t level;
  hk_level_chunk_t chunk[2];
  unsigned filling;    /* index of the chunk that takes notes; the other one is empty or waits */
  bool is_waiting;     /* the other chunk waits to be written */
  bool is_writing;     /* a thread writes it; that thread alone uses `path`, and `file` until it is open */
  bool is_open;        /* the file exists */
  uint64_t file_bytes; /* header and whole chunks */
  uint64_t ns_per_mib_second;
  hk_kept_file_t file;
  char path[HK_OUTPUT_PATH_BYTES];
} recording;

static hk_level_chunk_t *waiting_chunk(void) { return &recording.chunk[!recording.filling]; }

static void complain(int error, const char *complaint) {
  hk_option_warn("HAKMEM_TRACE", hk_option.trace, complaint, hk_output_path_reason(error));
}

/* ---- Notes. */

static void empty(hk_level_chunk_t *chunk) { chunk->bytes = chunk->point_count = 0; }

void hk_recording_note_slow_locked(uint64_t now_ms, size_t in_use_bytes) {
  hk_level_chunk_t *chunk = &recording.chunk[recording.filling];
  hk_level_trace_note(&recording.level, chunk, now_ms, in_use_bytes);
  if (recording.is_waiting || !hk_level_chunk_is_full(chunk, now_ms)) return;
  empty(waiting_chunk());
  recording.filling = !recording.filling;
  recording.is_waiting = true;
  hk_store_relaxed(&hk_recording_state.is_full, true);
}

/* ---- The file. */

static int open_with(const char *path, void *first) { return hk_growing_file_open(&recording.file, path, first); }

static int open_file(void) {
  unsigned char header[HK_LEVEL_TRACE_HEADER_BYTES];
  hk_level_trace_header(header, recording.ns_per_mib_second);
  hk_file_piece_t piece = {.head = header, .head_bytes = sizeof header};
  return hk_output_path_make(recording.path, hk_option.trace, open_with, &piece);
}

static int obstacle(const char *path, void *unused) {
  (void)unused;
  return hk_new_file_obstacle(path);
}

static int write_chunk(const hk_level_chunk_t *chunk, uint64_t at) {
  unsigned char head[HK_LEVEL_TRACE_HEAD_BYTES];
  hk_level_chunk_head(chunk, head);
  hk_file_piece_t piece = {.head = head, .head_bytes = sizeof head, .body = chunk->payload, .body_bytes = chunk->bytes};
  return hk_growing_file_write(&recording.file, at, &piece);
}

/* ---- Writing while the program runs. */

typedef struct {
  const hk_level_chunk_t *chunk;
  uint64_t at;
  bool is_open;
} job_t;

/* Takes the chunk that waits. Returns false when there is none, or when another thread writes it. */
static bool begin_job(job_t *job) {
  hk_lock_acquire(hk_lock_space);
  bool is_due = hk_load_relaxed(&hk_recording_state.is_on) && recording.is_waiting && !recording.is_writing;
  if (is_due) {
    recording.is_writing = true;
    hk_store_relaxed(&hk_recording_state.is_full, false);
    *job = (job_t){.chunk = waiting_chunk(), .at = recording.file_bytes, .is_open = recording.is_open};
  }
  hk_lock_release(hk_lock_space);
  return is_due;
}

/* Notes that the chunk is written. Ends the recording after an error, and returns true when the caller is the first
 * thread that reports one. */
static bool end_job(const job_t *job, int error) {
  hk_lock_acquire(hk_lock_space);
  bool was_on = hk_load_relaxed(&hk_recording_state.is_on);
  recording.is_writing = false;
  if (was_on) {
    recording.is_waiting = false;
    recording.is_open = job->is_open;
    recording.file_bytes += HK_LEVEL_TRACE_HEAD_BYTES + job->chunk->bytes;
    hk_store_relaxed(&hk_recording_state.is_on, error == 0);
  }
  hk_lock_release(hk_lock_space);
  return was_on && error != 0;
}

void hk_recording_write(void) {
  job_t job;
  if (!begin_job(&job)) return;
  int error = 0;
  if (!job.is_open) {
    error = open_file();
    job.is_open = error == 0;
  }
  if (error == 0) error = write_chunk(job.chunk, job.at);
  if (!end_job(&job, error)) return;
  if (job.is_open) hk_kept_file_close(&recording.file);
  complain(error, "is recorded no longer");
}

/* ---- The start and the end. */

static void begin_locked(uint64_t now_ms, size_t in_use_bytes) {
  empty(&recording.chunk[0]);
  empty(&recording.chunk[1]);
  recording.is_waiting = recording.is_writing = recording.is_open = false;
  recording.file_bytes = HK_LEVEL_TRACE_HEADER_BYTES;
  hk_level_trace_begin(&recording.level, now_ms);
  hk_level_trace_note(&recording.level, &recording.chunk[recording.filling], now_ms, in_use_bytes);
  hk_store_relaxed(&hk_recording_state.is_full, false);
  hk_store_relaxed(&hk_recording_state.is_on, true);
}

static void begin(size_t in_use_bytes) {
  uint64_t now_ms = hk_os_coarse_ms();
  hk_lock_acquire(hk_lock_space);
  begin_locked(now_ms, in_use_bytes);
  hk_lock_release(hk_lock_space);
}

void hk_recording_start(size_t in_use_bytes, uint64_t ns_per_mib_second) {
  if (*hk_option.trace == '\0') return;
  int error = hk_output_path_make(recording.path, hk_option.trace, obstacle, NULL);
  if (error != 0) {
    complain(error, "cannot be written");
    return;
  }
  recording.ns_per_mib_second = ns_per_mib_second;
  begin(in_use_bytes);
}

/* Ends the recording for all other threads. Returns false when there is none, or when another thread is making the
 * file: the process ends before that thread can write. */
static bool end_for_others(void) {
  hk_lock_acquire(hk_lock_space);
  bool is_ours = hk_load_relaxed(&hk_recording_state.is_on) && (recording.is_open || !recording.is_writing);
  hk_store_relaxed(&hk_recording_state.is_on, false);
  hk_store_relaxed(&hk_recording_state.is_full, false);
  hk_lock_release(hk_lock_space);
  return is_ours;
}

static int write_last(const hk_level_chunk_t *chunk) {
  int error = write_chunk(chunk, recording.file_bytes);
  recording.file_bytes += HK_LEVEL_TRACE_HEAD_BYTES + chunk->bytes;
  return error;
}

static HK_COLD void write_rest(uint64_t now_ms) {
  hk_level_chunk_t *chunk = &recording.chunk[recording.filling];
  int error = recording.is_open ? 0 : open_file();
  if (error == 0 && recording.is_waiting) error = write_last(waiting_chunk());
  if (error == 0 && chunk->point_count > 0) error = write_last(chunk);
  empty(chunk);
  hk_level_trace_end(&recording.level, chunk, now_ms);
  if (error == 0) error = write_last(chunk);
  if (error != 0) complain(error, "is not recorded to the end");
}

void hk_recording_finish(void) {
  uint64_t now_ms = hk_os_coarse_ms();
  if (end_for_others()) write_rest(now_ms);
}

void hk_recording_repair(size_t in_use_bytes) {
  if (!hk_load_relaxed(&hk_recording_state.is_on)) return;
  hk_store_relaxed(&hk_recording_state.is_on, false);
  hk_store_relaxed(&hk_recording_state.is_full, false);
  if (recording.is_open) hk_kept_file_close(&recording.file);
  if (hk_output_path_has_process_id(hk_option.trace)) begin(in_use_bytes);
}
