/* os/local_socket.h - L1. A Unix stream socket with an abstract name, in a process whose program does not expect it.
 * The program may close any of its descriptors and get the same number for a file of its own. So each function first
 * checks that the number is still the socket's. Bare system calls that do not block, but for hk_local_socket_write and
 * hk_local_socket_wait, which have a time-out: no allocation, errno stays. */
#ifndef HK_OS_LOCAL_SOCKET_H
#define HK_OS_LOCAL_SOCKET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The longest name, without the zero byte that the kernel expects before it. */
#define HK_LOCAL_SOCKET_NAME_BYTES 64

typedef struct {
  char name[HK_LOCAL_SOCKET_NAME_BYTES];
  size_t length;
  int file; /* the listening descriptor; -1: none */
} hk_local_socket_t;

/* Listens under the socket's name. Returns 0 or the error number: EADDRINUSE where another socket has the name. */
int hk_local_socket_listen(hk_local_socket_t *socket);

/* Returns whether this descriptor is the socket's listening one or a connection that it accepted. */
bool hk_local_socket_owns(const hk_local_socket_t *socket, int file);

/* Accepts the next connection. Returns its descriptor, or -1 when there is none. */
int hk_local_socket_accept(const hk_local_socket_t *socket);

/* The peer of a connection. */
typedef enum {
  hk_local_peer_trusted,  /* root, or the process's present user */
  hk_local_peer_other,    /* another user, or the system does not tell */
  hk_local_peer_unclear,  /* the process's user or another one: both have the number of users without one */
  hk_local_peer_shut_out, /* the process's user, which ptrace keeps from the process too (PR_GET_DUMPABLE) */
} hk_local_peer_t;

/* Classifies the peer of a connection. */
hk_local_peer_t hk_local_socket_peer(int file);

/* Reads up to `capacity` bytes that have arrived. Returns their number, 0 at the end, or a negated error number:
 * -EAGAIN when there are none yet. */
long hk_local_socket_read(const hk_local_socket_t *socket, int file, char *bytes, size_t capacity);

/* Sends all bytes. Returns false when the peer does not take them within `timeout_ms`, when it has closed the
 * connection, and when `may_go_on`, which is called several times a second meanwhile, returns false. */
bool hk_local_socket_write(const hk_local_socket_t *socket, int file, const char *bytes, size_t length,
                           uint64_t timeout_ms, bool (*may_go_on)(void));

/* Ends a connection or the listening, also for children of fork that have a copy. Does nothing where the descriptor is
 * not the socket's. */
void hk_local_socket_end(const hk_local_socket_t *socket, int file);

/* Closes a child's copy of a descriptor after fork; the parent's connection stays. */
void hk_local_socket_forget(const hk_local_socket_t *socket, int file);

/* Waits until one of the descriptors is ready. Where the system refuses such a wait, pauses and marks all of them as
 * ready. Returns false when the system refuses every way to wait. */
bool hk_local_socket_wait(struct pollfd *files, unsigned count, uint64_t timeout_ms);

HK_C_END

#endif /* HK_OS_LOCAL_SOCKET_H */
