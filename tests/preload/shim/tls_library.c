/* A library with thread-local variables, to be copied under many names: dlopen_many.c and late_static_tls.c. MODEL
 * is "global-dynamic", where ld.so allocates a thread's copy when the thread first asks, or "initial-exec", where
 * each thread has it from the library's loading on. */
__thread long tls_local[WORDS] __attribute__((tls_model(MODEL)));

long *tls_library_local(void) { return tls_local; }
