/* serve/server, serve_command and profile_command: the input is the lines of clients, over sockets that this file
 * replaces. A byte sets how many bytes arrive at once. 0xff and another byte continue with another client, or end
 * it. Each line of a client that stays has to get one whole answer. A profile has to end with the client that has
 * started it, unless that client has told it to stay. */
#include "serve/server.h"

#include <errno.h>
#include <hakmem/hakmem.h>
#include <string.h>

#include "fuzz.h"
#include "inspect/profile.h"
#include "kernel_text.h"
#include "os/local_socket.h"

#define CLIENTS 5 /* one more than the server accepts */
#define LISTENING_FILE 100
#define FIRST_FILE 200
#define INPUT_MAX 768 /* an input may request a report for each ten bytes, which takes long */
#define HEAD_BYTES 256
#define SWITCH 0xff
#define ENDS 0x80

typedef struct {
  bool is_connected;
  bool is_over; /* the client has ended */
  unsigned lines, answers;
  size_t body_left;
  size_t head_length;
  char head[HEAD_BYTES];
} client_t;

static client_t clients[CLIENTS];
static fuzz_input_t input;
static unsigned current; /* the client that sends */
static bool is_arriving; /* the server has not accepted `current` yet */
static size_t piece;     /* the bytes that arrive at once */
static bool is_kept;     /* a client may tell a profile to stay */
static void *blocks[64];

static client_t *client_of(int file) {
  FUZZ_CHECK(file >= FIRST_FILE && file < FIRST_FILE + CLIENTS);
  return &clients[file - FIRST_FILE];
}

/* ---- os/local_socket.h. */

int hk_local_socket_listen(hk_local_socket_t *socket) {
  FUZZ_CHECK(socket->length < sizeof socket->name);
  socket->file = LISTENING_FILE;
  return 0;
}

bool hk_local_socket_owns(const hk_local_socket_t *socket, int file) { return socket->file == file; }

int hk_local_socket_accept(const hk_local_socket_t *socket) {
  FUZZ_CHECK(socket->file == LISTENING_FILE && is_arriving);
  is_arriving = false;
  clients[current] = (client_t){.is_connected = true};
  return FIRST_FILE + (int)current;
}

hk_local_peer_t hk_local_socket_peer(int file) {
  return client_of(file)->is_connected ? hk_local_peer_trusted : hk_local_peer_other;
}

long hk_local_socket_read(const hk_local_socket_t *socket, int file, char *bytes, size_t capacity) {
  client_t *client = client_of(file);
  FUZZ_CHECK(socket->file == LISTENING_FILE && client->is_connected && capacity > 0);
  if (client->is_over || file != FIRST_FILE + (int)current) return client->is_over ? 0 : -EAGAIN;
  size_t count = 0;
  while (count < capacity && count < piece && input.left > 0 && *input.at != SWITCH) {
    bytes[count] = (char)*input.at++;
    input.left--;
    client->lines += bytes[count++] == '\n';
  }
  return count > 0 ? (long)count : -EAGAIN;
}

static void take_head(client_t *client) {
  client->head[client->head_length] = '\0';
  char *end;
  if (strncmp(client->head, "ok ", 3) == 0) {
    client->body_left = strtoul(client->head + 3, &end, 10);
    FUZZ_CHECK(end > client->head + 3 && *end == '\0');
  } else {
    FUZZ_CHECK(strncmp(client->head, "error ", 6) == 0 && client->head[6] != '\0');
  }
  client->head_length = 0;
  client->answers++;
}

bool hk_local_socket_write(const hk_local_socket_t *socket, int file, const char *bytes, size_t length,
                           uint64_t timeout_ms, bool (*may_go_on)(void)) {
  client_t *client = client_of(file);
  (void)timeout_ms;
  FUZZ_CHECK(socket->file == LISTENING_FILE && client->is_connected && may_go_on());
  FUZZ_CHECK(memchr(bytes, '\0', length) == NULL || client->body_left >= length); /* a profile is binary */
  while (length > 0) {
    size_t count = client->body_left < length ? client->body_left : length;
    bytes += count;
    length -= count;
    client->body_left -= count;
    if (length == 0) break;
    length--;
    if (*bytes++ == '\n') {
      take_head(client);
    } else {
      FUZZ_CHECK(client->head_length + 1 < HEAD_BYTES);
      client->head[client->head_length++] = bytes[-1];
    }
  }
  return true;
}

void hk_local_socket_end(const hk_local_socket_t *socket, int file) {
  (void)socket;
  if (file < FIRST_FILE) return;
  client_t *client = client_of(file);
  FUZZ_CHECK(client->is_connected);
  FUZZ_CHECK(client->body_left == 0 && client->head_length == 0);
  client->is_connected = false;
}

void hk_local_socket_forget(const hk_local_socket_t *socket, int file) { hk_local_socket_end(socket, file); }

bool hk_local_socket_wait(struct pollfd *files, unsigned count, uint64_t timeout_ms) {
  (void)timeout_ms;
  for (unsigned i = 0; i < count; i++) {
    files[i].revents = 0;
    if (files[i].fd == LISTENING_FILE && is_arriving) files[i].revents = POLLIN;
    if (files[i].fd < FIRST_FILE) continue;
    bool is_sending = files[i].fd == FIRST_FILE + (int)current && !is_arriving;
    if (is_sending || client_of(files[i].fd)->is_over) files[i].revents = POLLIN;
  }
  return true;
}

/* ---- */

static bool goes_on(void) { return true; }

/* Allocates as a program does, so that a profile has samples. */
static void allocate(void) {
  static unsigned turn;
  for (unsigned i = 0; i < 4; i++, turn++) {
    void **block = &blocks[turn % (sizeof blocks / sizeof *blocks)];
    hakmem_free(*block);
    *block = hakmem_malloc((size_t)1 << (turn % 18));
  }
}

static void check_clients(void) {
  unsigned connected = 0;
  for (unsigned i = 0; i < CLIENTS; i++) {
    const client_t *client = &clients[i];
    connected += client->is_connected;
    if (client->is_connected) FUZZ_CHECK(client->answers == client->lines);
    FUZZ_CHECK(client->answers <= client->lines + 1); /* a line that is too long may lack its end */
  }
  FUZZ_CHECK(hk_server_client_count() == connected);
}

static void visit(void) {
  FUZZ_CHECK(hk_server_visit(0, goes_on));
  check_clients();
}

static void switch_client(void) {
  (void)fuzz_number(&input, 1);
  unsigned which = (unsigned)fuzz_number(&input, 1);
  current = which % CLIENTS;
  if ((which & ENDS) != 0 && clients[current].is_connected) {
    clients[current].is_over = true;
  } else if (!clients[current].is_connected) {
    is_arriving = true;
  }
  visit();
}

static bool has_text(const uint8_t *data, size_t size, const char *text) {
  return memmem(data, size, text, strlen(text)) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kernel_text_clear();
  memset(clients, 0, sizeof clients);
  input = (fuzz_input_t){data, size < INPUT_MAX ? size : INPUT_MAX};
  is_kept = has_text(data, size, "stay");
  piece = 1 + (size_t)fuzz_number(&input, 1);
  current = 0;
  FUZZ_CHECK(hk_server_open());
  is_arriving = true;
  visit();
  while (input.left > 0) {
    if (*input.at == SWITCH) {
      switch_client();
    } else if (!clients[current].is_connected) { /* the client has ended, and connects again */
      is_arriving = true;
      visit();
      if (!clients[current].is_connected) (void)fuzz_number(&input, 1);
    } else {
      visit();
    }
    allocate();
  }
  hk_server_close();
  for (unsigned i = 0; i < CLIENTS; i++) FUZZ_CHECK(!clients[i].is_connected);
  FUZZ_CHECK(is_kept || !hk_profile_is_running());
  (void)hk_profile_stop();
  return 0;
}
