/* serve/server.h - L10. The process's socket and its clients. All of it belongs to the serve thread.
 *
 * A client sends lines. The server answers each with "ok <bytes>\n" and that number of bytes, or with "error <text>\n".
 * It does not answer "end", which tells it that the client needs the socket no longer. A heap profile that a client has
 * started ends when the client disconnects, however it ends, unless the client has started it with "stay".
 */
#ifndef HK_SERVE_SERVER_H
#define HK_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/* Listens on the socket, unless it does so already. Returns false when the system refuses. */
bool hk_server_open(void);
bool hk_server_is_open(void);

/* Returns the number of connected clients. */
unsigned hk_server_client_count(void);

/* Returns whether a client has sent "end" and all clients have disconnected. */
bool hk_server_is_over(void);

/* Waits for a client or a command, at most `timeout_ms`, and answers all commands. It drops a client that is slow to
 * take its answer, and stops a leak scan, as soon as `may_go_on` returns false. Returns false when the program has
 * closed the socket. */
bool hk_server_visit(uint64_t timeout_ms, bool (*may_go_on)(void));

/* Disconnects all clients, ends the profile that one of them has started, and closes the socket. */
void hk_server_close(void);

/* In a child of fork, which has copies of its parent's descriptors: closes them, and ends a profile that a client of
 * the parent has started. */
void hk_server_forget(void);

#endif /* HK_SERVE_SERVER_H */
