/* api/serve.h - L6. The serve thread: shows the statistics while the program runs. It is there when it is asked for and
 * not otherwise: a signal of the user's choice, a file that is written every so many seconds, or the command line tool,
 * which sends a signal and then connects to the process's socket. Nothing of it is in secure-exec programs.
 *
 * It is a bare thread (os.h), for in a signal handler no other can be started. It has no heap, and ends when nobody has
 * asked for anything for a minute.
 */
#ifndef HK_API_SERVE_H
#define HK_API_SERVE_H

/* At the program's start: takes the signals, and starts the thread where an option wants it. */
void hk_serve_prepare(void);

/* Wakes the serve thread, if there is one, so that it ends. Requires that hk_sandbox_is_near is set. */
void hk_serve_end_soon(void);

#endif /* HK_API_SERVE_H */
