/* serve/server.h - L10. The process's socket, and who has connected to it. Who connects sends lines; each is answered by
 * "ok <bytes>\n" and so many bytes, or by "error <text>\n"; "end" is answered by nothing, and says that the program
 * needs to listen no longer. A heap profile that a client has started ends when the client is gone, however it ends,
 * unless the client asked for it to stay. All of it belongs to one thread, the serve thread.
 */
#ifndef HK_SERVE_SERVER_H
#define HK_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/* Listens, unless it does so already. False when the system refuses. */
bool hk_server_open(void);
bool hk_server_is_open(void);

/* How many are connected. */
unsigned hk_server_client_count(void);

/* Somebody has said "end", and nobody is left. */
bool hk_server_is_over(void);

/* Waits until a client connects or asks something, but for `timeout_ms` at the most, and answers all that was asked. A
 * client that is slow to take its answer is left as soon as `may_go_on` says false, and so is a search for leaks. False
 * when the socket is gone, because the program has closed it. */
bool hk_server_visit(uint64_t timeout_ms, bool (*may_go_on)(void));

void hk_server_close(void);

/* In a child of fork, which has copies of its parent's descriptors: closes them, and ends a profile that a client of
 * the parent has started. */
void hk_server_forget(void);

#endif /* HK_SERVE_SERVER_H */
