/* os/local_socket.c - L1. See local_socket.h. */
#define _GNU_SOURCE 1

#include "os/local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/text.h"
#include "os/kept_file.h"
#include "os/kernel_file.h"
#include "os/os.h"
#include "os/syscall.h"
#include "os/timespec.h"

enum { backlog = 8 };

/* Chosen: interval at which a writer that waits calls `may_go_on`. */
#define WRITE_STEP_MS 100

/* Chosen: interval of checks of the descriptors where the system refuses to wait for them. */
#define LOOK_MS 20

/* The kernel's number for every user without a number in this process's namespace (user_namespaces(7)); elsewhere a
 * user's own, by convention one without rights. */
enum { overflow_uid = 65534 };

typedef struct {
  struct sockaddr_un address;
  unsigned bytes;
} address_t;

static address_t address_of(const hk_local_socket_t *socket) {
  address_t result = {.address = {.sun_family = AF_UNIX}};
  __builtin_memcpy(result.address.sun_path + 1, socket->name, socket->length);
  result.bytes = (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + socket->length);
  return result;
}

/* Moves a descriptor to a number from HK_KEPT_FILE_LOWEST on. Returns the new number, or the old one where that
 * fails. */
static long move_up(long file) {
  if (hk_syscall_failed(file) || file >= HK_KEPT_FILE_LOWEST) return file;
  long own = hk_syscall3(SYS_fcntl, file, F_DUPFD_CLOEXEC, HK_KEPT_FILE_LOWEST);
  if (hk_syscall_failed(own)) return file; /* the program's limit on descriptors may be lower */
  (void)hk_syscall2(SYS_close, file, 0);
  return own;
}

bool hk_local_socket_owns(const hk_local_socket_t *socket, int file) {
  address_t expected = address_of(socket), found = {.bytes = sizeof found.address};
  if (file < 0 || hk_syscall3(SYS_getsockname, file, (long)&found.address, (long)&found.bytes) != 0) return false;
  return found.bytes == expected.bytes && __builtin_memcmp(&found.address, &expected.address, found.bytes) == 0;
}

int hk_local_socket_listen(hk_local_socket_t *socket) {
  address_t address = address_of(socket);
  long file = move_up(hk_syscall3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (hk_syscall_failed(file)) return (int)-file;
  long error = hk_syscall3(SYS_bind, file, (long)&address.address, address.bytes);
  if (error == 0) error = hk_syscall2(SYS_listen, file, backlog);
  /* hk_local_socket_end checks the name before it closes. It could not close a socket whose name the system hides. */
  if (error == 0 && !hk_local_socket_owns(socket, (int)file)) error = -EPERM;
  if (error == 0) {
    socket->file = (int)file;
  } else {
    (void)hk_syscall2(SYS_close, file, 0);
  }
  return (int)-error;
}

int hk_local_socket_accept(const hk_local_socket_t *socket) {
  if (!hk_local_socket_owns(socket, socket->file)) return -1;
  long file = move_up(hk_syscall4(SYS_accept4, socket->file, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return hk_syscall_failed(file) ? -1 : (int)file;
}

/* Returns the text behind the number at the start, and the spaces before it; NULL when another number is there. */
static const char *after_number(const char *text, uint64_t number) {
  uint64_t found;
  while (text != NULL && *text == ' ') text++;
  if (text != NULL) text = hk_text_number(text, &found);
  return text != NULL && found == number ? text : NULL;
}

/* Returns whether each user has a number of its own in this process's namespace: it maps all numbers in one line, as
 * the first namespace does. A namespace inside another one can do so only where that one does. */
static bool has_all_users(void) {
  hk_kernel_file_t file;
  char line[HK_KERNEL_LINE_BYTES];
  if (!hk_kernel_file_open_own(&file, "uid_map")) return false;
  bool is_read = hk_kernel_file_line(&file, line);
  hk_kernel_file_close(&file);
  return is_read && after_number(after_number(after_number(line, 0), 0), UINT32_MAX) != NULL;
}

hk_local_peer_t hk_local_socket_peer(int file) {
  struct ucred peer = {.uid = (uid_t)-1};
  unsigned bytes = sizeof peer;
  if (hk_syscall6(SYS_getsockopt, file, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&bytes, 0) != 0) {
    return hk_local_peer_other;
  }
  if (peer.uid == 0) return hk_local_peer_trusted;
  if ((long)peer.uid != hk_syscall2(SYS_geteuid, 0, 0)) return hk_local_peer_other;
  if (peer.uid == overflow_uid && !has_all_users()) return hk_local_peer_unclear;
  bool may_be_read = hk_syscall2(SYS_prctl, PR_GET_DUMPABLE, 0) == 1;
  return may_be_read ? hk_local_peer_trusted : hk_local_peer_shut_out;
}

long hk_local_socket_read(const hk_local_socket_t *socket, int file, char *bytes, size_t capacity) {
  if (!hk_local_socket_owns(socket, file)) return -EBADF;
  for (;;) {
    long count = hk_syscall6(SYS_recvfrom, file, (long)bytes, (long)capacity, MSG_DONTWAIT, 0, 0);
    if (count != -EINTR) return count;
  }
}

bool hk_local_socket_write(const hk_local_socket_t *socket, int file, const char *bytes, size_t length,
                           uint64_t timeout_ms, bool (*may_go_on)(void)) {
  uint64_t end_ms = hk_os_coarse_ms() + timeout_ms;
  while (length > 0) {
    if (!hk_local_socket_owns(socket, file)) return false;
    long count = hk_syscall6(SYS_sendto, file, (long)bytes, (long)length, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
    if (count > 0) {
      bytes += count;
      length -= (size_t)count;
      continue;
    }
    if (count != -EINTR && count != -EAGAIN) return false;
    uint64_t now_ms = hk_os_coarse_ms();
    if (now_ms >= end_ms || !may_go_on()) return false;
    struct pollfd writable = {.fd = file, .events = POLLOUT};
    if (!hk_local_socket_wait(&writable, 1, hk_smaller(end_ms - now_ms, WRITE_STEP_MS))) return false;
  }
  return true;
}

void hk_local_socket_end(const hk_local_socket_t *socket, int file) {
  if (!hk_local_socket_owns(socket, file)) return;
  (void)hk_syscall2(SYS_shutdown, file, SHUT_RDWR);
  (void)hk_syscall2(SYS_close, file, 0);
}

void hk_local_socket_forget(const hk_local_socket_t *socket, int file) {
  if (hk_local_socket_owns(socket, file)) (void)hk_syscall2(SYS_close, file, 0);
}

/* Pauses, then marks every descriptor as ready: no call on them blocks. Returns false when the system refuses to
 * pause. */
static bool look_later(struct pollfd *files, unsigned count, uint64_t timeout_ms) {
  bool has_waited = hk_os_pause(hk_smaller(timeout_ms, LOOK_MS));
  for (unsigned i = 0; i < count; i++) files[i].revents = files[i].fd >= 0 ? files[i].events : 0;
  return has_waited;
}

bool hk_local_socket_wait(struct pollfd *files, unsigned count, uint64_t timeout_ms) {
  struct timespec timeout = hk_timespec_of_ms(timeout_ms);
  long answer = hk_syscall6(SYS_ppoll, (long)files, count, (long)&timeout, 0, 0, 0);
  return !hk_syscall_failed(answer) || answer == -EINTR || look_later(files, count, timeout_ms);
}
