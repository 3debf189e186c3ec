/* os/local_socket.h - L1. A Unix stream socket with an abstract name, in a process whose program knows nothing of it:
 * which may close each of its descriptors, and be given the same number for one of its own. So before each use it is
 * asked whether the number is still ours. Bare system calls that wait for nobody: no allocation, errno stays.
 */
#ifndef HK_OS_LOCAL_SOCKET_H
#define HK_OS_LOCAL_SOCKET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Of a name, without the zero byte that it begins with for the kernel. */
#define HK_LOCAL_SOCKET_NAME_BYTES 64

typedef struct {
  char name[HK_LOCAL_SOCKET_NAME_BYTES];
  size_t length;
  int file; /* that listens; -1: none */
} hk_local_socket_t;

/* Listens under the socket's name: 0, or the error number; EADDRINUSE where somebody else does. */
int hk_local_socket_listen(hk_local_socket_t *socket);

/* Whether this descriptor is one of the socket's: it listens, or was accepted. */
bool hk_local_socket_owns(const hk_local_socket_t *socket, int file);

/* Who connected next: a descriptor, or -1. */
int hk_local_socket_accept(const hk_local_socket_t *socket);

/* Whether who connected is the process's own user, as it is now, or root. */
bool hk_local_socket_is_trusted(int file);

/* The bytes that came, of `capacity` at the most; 0 at the end; a negated error number, EAGAIN when none are there. */
long hk_local_socket_read(const hk_local_socket_t *socket, int file, char *bytes, size_t capacity);

/* Sends all of it. False when the other end does not take it within `timeout_ms`, or is gone, or when `may_go_on`,
 * which is asked several times a second meanwhile, says so. */
bool hk_local_socket_write(const hk_local_socket_t *socket, int file, const char *bytes, size_t length,
                           uint64_t timeout_ms, bool (*may_go_on)(void));

/* Ends a connection, or the listening, for forks that have a copy too; if the descriptor is still ours. */
void hk_local_socket_end(const hk_local_socket_t *socket, int file);

/* In a child of fork: closes the copy, and nothing ends for the parent. */
void hk_local_socket_forget(const hk_local_socket_t *socket, int file);

/* Waits for something on one of them. Where the system refuses to wait for descriptors, some time passes, and all count
 * as ready. False when it refuses every way to wait. */
bool hk_local_socket_wait(struct pollfd *files, unsigned count, uint64_t timeout_ms);

HK_C_END

#endif /* HK_OS_LOCAL_SOCKET_H */
