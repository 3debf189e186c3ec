/* serve/server.c - L10. See server.h. */
#include "serve/server.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/format.h"
#include "base/units.h"
#include "os/local_socket.h"
#include "os/os.h"
#include "report/long_text.h"
#include "serve/profile_command.h"
#include "serve/serve_command.h"

/* Chosen: a terminal that watches, a scraper, and room for two more. */
#define CLIENT_MAX 4
/* Chosen: most answers fit. An answer that cannot grow far enough is refused as too long. */
#define LEAST_BYTES (256 * HK_KIB)
/* Longest command, with its newline. */
#define LINE_BYTES 256
/* Chosen: longest time for a client to take an answer, because others wait meanwhile. */
#define WRITE_TIMEOUT_MS 5000
/* A child of fork that still has the socket, or another program, may hold the first name. The server then takes one of
 * the next names; cli/hakmem/attach.py tries all of them. */
#define NAME_COUNT 8

typedef struct {
  int file;             /* -1: none */
  uint64_t profile_run; /* the run that ends with the client; 0: none */
  size_t length;
  char line[LINE_BYTES];
} client_t;

static hk_local_socket_t own_socket = {.file = -1};
static client_t clients[CLIENT_MAX] = {{.file = -1}, {.file = -1}, {.file = -1}, {.file = -1}};

static bool is_end_wanted;

/* `may_go_on` of the visit in progress. */
static bool (*visit_may_go_on)(void);

bool hk_server_is_open(void) { return own_socket.file >= 0; }

unsigned hk_server_client_count(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < CLIENT_MAX; i++) count += clients[i].file >= 0;
  return count;
}

bool hk_server_is_over(void) { return is_end_wanted && hk_server_client_count() == 0; }

/* ---- The socket. */

static void name_socket(unsigned turn) {
  hk_format_t name;
  hk_format_init(&name, own_socket.name, sizeof own_socket.name);
  hk_format_print(&name, "hakmem/%u", hk_os_process_id());
  if (turn > 0) hk_format_print(&name, ".%u", (uint64_t)turn);
  own_socket.length = name.length;
}

bool hk_server_open(void) {
  if (hk_server_is_open()) return true;
  is_end_wanted = false;
  int error = EADDRINUSE;
  for (unsigned turn = 0; turn < NAME_COUNT && error == EADDRINUSE; turn++) {
    name_socket(turn);
    error = hk_local_socket_listen(&own_socket);
  }
  return error == 0;
}

/* Also ends the client's heap profile. */
static void forget_client(client_t *client) {
  hk_profile_command_end(client->profile_run);
  *client = (client_t){.file = -1};
}

static void end_client(client_t *client) {
  hk_local_socket_end(&own_socket, client->file);
  forget_client(client);
}

void hk_server_close(void) {
  for (unsigned i = 0; i < CLIENT_MAX; i++) end_client(&clients[i]);
  hk_local_socket_end(&own_socket, own_socket.file);
  own_socket.file = -1;
}

void hk_server_forget(void) {
  for (unsigned i = 0; i < CLIENT_MAX; i++) {
    hk_local_socket_forget(&own_socket, clients[i].file);
    forget_client(&clients[i]);
  }
  hk_local_socket_forget(&own_socket, own_socket.file);
  own_socket.file = -1;
}

/* ---- Answers. */

static bool send_text(const client_t *client, const hk_format_t *text) {
  return hk_local_socket_write(&own_socket, client->file, text->text, text->length, WRITE_TIMEOUT_MS, visit_may_go_on);
}

static bool send_error(const client_t *client, const char *reason) {
  char buffer[LINE_BYTES];
  hk_format_t line;
  hk_format_init(&line, buffer, sizeof buffer);
  hk_format_print(&line, "error %s\n", reason);
  return send_text(client, &line);
}

static bool send_answer(const client_t *client, const hk_format_t *answer) {
  char buffer[LINE_BYTES];
  hk_format_t head;
  hk_format_init(&head, buffer, sizeof buffer);
  hk_format_print(&head, "ok %u\n", (uint64_t)answer->length);
  return send_text(client, &head) && send_text(client, answer);
}

static bool is_end(const char *line) { return strcmp(line, "end") == 0; }

/* Returns false when the client has disconnected, or has sent "end". */
static bool answer(client_t *client, const char *line) {
  if (is_end(line)) {
    is_end_wanted = true;
    return false;
  }
  hk_format_t out;
  if (!hk_long_text_begin(&out, LEAST_BYTES)) return send_error(client, "no memory for the answer");
  const char *reason = hk_serve_command(&out, line, &client->profile_run, visit_may_go_on);
  if (reason == NULL && out.left_out > 0) reason = "the answer is too long";
  bool is_there = reason == NULL ? send_answer(client, &out) : send_error(client, reason);
  hk_long_text_end(&out);
  return is_there;
}

/* ---- Clients. */

/* Answers all complete lines. Returns false when the client is to be disconnected. */
static bool answer_lines(client_t *client) {
  size_t start = 0;
  for (size_t at = 0; at < client->length; at++) {
    if (client->line[at] != '\n') continue;
    client->line[at] = '\0';
    if (!answer(client, client->line + start)) return false;
    start = at + 1;
  }
  client->length -= start;
  __builtin_memmove(client->line, client->line + start, client->length);
  if (client->length < LINE_BYTES) return true;
  (void)send_error(client, "the command is too long");
  return false;
}

static bool read_client(client_t *client) {
  long count =
      hk_local_socket_read(&own_socket, client->file, client->line + client->length, LINE_BYTES - client->length);
  if (count == -EAGAIN) return true;
  if (count <= 0) return false;
  client->length += (size_t)count;
  return answer_lines(client);
}

static client_t *free_client(void) {
  for (unsigned i = 0; i < CLIENT_MAX; i++) {
    if (clients[i].file < 0) return &clients[i];
  }
  return NULL;
}

/* Returns why the peer gets no answers; NULL when it gets them. */
static const char *refusal_of(int file) {
  switch (hk_local_socket_peer(file)) {
    case hk_local_peer_trusted:
      return NULL;
    case hk_local_peer_unclear:
      return "users without a number in its namespace share 65534, the number of its own user";
    case hk_local_peer_shut_out:
      return "it is not dumpable, and so answers only root";
    default:
      return "the process answers only its own user and root";
  }
}

/* Returns false when a client waits that cannot be accepted, for want of a descriptor. */
static bool accept_client(void) {
  client_t newcomer = {.file = hk_local_socket_accept(&own_socket)};
  if (newcomer.file < 0) return false;
  client_t *client = free_client();
  const char *refusal = refusal_of(newcomer.file);
  if (refusal == NULL && client == NULL) refusal = "the process already has too many clients";
  if (refusal == NULL) {
    *client = newcomer;
  } else {
    (void)send_error(&newcomer, refusal);
    hk_local_socket_end(&own_socket, newcomer.file);
  }
  return true;
}

bool hk_server_visit(uint64_t timeout_ms, bool (*may_go_on)(void)) {
  visit_may_go_on = may_go_on;
  struct pollfd files[CLIENT_MAX + 1];
  for (unsigned i = 0; i < CLIENT_MAX; i++) files[i] = (struct pollfd){.fd = clients[i].file, .events = POLLIN};
  files[CLIENT_MAX] = (struct pollfd){.fd = own_socket.file, .events = POLLIN};
  if (!hk_local_socket_wait(files, CLIENT_MAX + 1, timeout_ms)) {
    hk_server_close();
    return true;
  }
  for (unsigned i = 0; i < CLIENT_MAX; i++) {
    if (files[i].revents != 0 && !read_client(&clients[i])) end_client(&clients[i]);
  }
  bool is_stuck = (files[CLIENT_MAX].revents & POLLIN) != 0 && !accept_client();
  if (is_stuck) (void)hk_local_socket_wait(files, CLIENT_MAX, timeout_ms);
  return hk_local_socket_owns(&own_socket, own_socket.file);
}
