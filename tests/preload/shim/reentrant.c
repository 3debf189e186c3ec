/* A second preloaded library that stands in front of functions an allocator may call, and allocates in each of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Volatile: the C library's header says that malloc does not come back here, and here it does. */
static __thread volatile int depth __attribute__((tls_model("initial-exec")));

static void allocate(void) {
  if (depth > 0) return; /* calls from our own malloc must end */
  ++depth;
  static const size_t sizes[] = {24, 2000, 50000};
  for (int i = 0; i < 3; ++i) {
    volatile char *block = malloc(sizes[i]);
    if (block) block[sizes[i] - 1] = 1;
    free((void *)block);
  }
  --depth;
}

static void *(*real_dlsym(void))(void *, const char *) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  static void *(*volatile found)(void *, const char *);
  for (int i = 0; found == NULL && i < 3; ++i) found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return found;
}

static void *next(const char *name) {
  ++depth; /* what looks it up may allocate: not again in here */
  void *found = real_dlsym()(RTLD_NEXT, name);
  --depth;
  return found;
}

void *dlsym(void *library, const char *name) {
  allocate();
  ++depth;
  void *found = real_dlsym()(library, name);
  --depth;
  return found;
}

void *dlopen(const char *path, int mode) {
  allocate();
  void *(*real)(const char *, int) = next("dlopen");
  return real(path, mode);
}

int dladdr(const void *address, Dl_info *info) {
  allocate();
  int (*real)(const void *, Dl_info *) = next("dladdr");
  return real(address, info);
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  allocate();
  return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  return mmap(address, length, protection, flags, file, offset);
}

int munmap(void *address, size_t length) {
  allocate();
  return (int)syscall(SYS_munmap, address, length);
}

int madvise(void *address, size_t length, int advice) {
  allocate();
  return (int)syscall(SYS_madvise, address, length, advice);
}

int mprotect(void *address, size_t length, int protection) {
  allocate();
  return (int)syscall(SYS_mprotect, address, length, protection);
}

int pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) {
  allocate();
  int (*real)(pthread_key_t *, void (*)(void *)) = next("pthread_key_create");
  return real(key, destroy);
}

int pthread_setspecific(pthread_key_t key, const void *value) {
  allocate();
  int (*real)(pthread_key_t, const void *) = next("pthread_setspecific");
  const int result = real(key, value);
  allocate();
  return result;
}

int pthread_attr_init(pthread_attr_t *attributes) {
  allocate();
  int (*real)(pthread_attr_t *) = next("pthread_attr_init");
  return real(attributes);
}

int pthread_attr_setdetachstate(pthread_attr_t *attributes, int state) {
  allocate();
  int (*real)(pthread_attr_t *, int) = next("pthread_attr_setdetachstate");
  return real(attributes, state);
}

int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t bytes) {
  allocate();
  int (*real)(pthread_attr_t *, size_t) = next("pthread_attr_setstacksize");
  return real(attributes, bytes);
}

int pthread_attr_destroy(pthread_attr_t *attributes) {
  allocate();
  int (*real)(pthread_attr_t *) = next("pthread_attr_destroy");
  return real(attributes);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  allocate();
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = next("pthread_create");
  const int result = real(thread, attributes, run, argument);
  allocate();
  return result;
}

/* What pthread_atfork calls, which is no function of the shared C library. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object) {
  allocate();
  int (*real)(void (*)(void), void (*)(void), void (*)(void), void *) = next("__register_atfork");
  const int result = real(prepare, parent, child, object);
  allocate();
  return result;
}

int sigaction(int number, const struct sigaction *wanted, struct sigaction *before) {
  allocate();
  int (*real)(int, const struct sigaction *, struct sigaction *) = next("sigaction");
  return real(number, wanted, before);
}

char *getenv(const char *name) {
  allocate();
  char *(*real)(const char *) = next("getenv");
  return real(name);
}

char *secure_getenv(const char *name) {
  allocate();
  char *(*real)(const char *) = next("secure_getenv");
  return real(name);
}

unsigned long getauxval(unsigned long type) {
  allocate();
  unsigned long (*real)(unsigned long) = next("getauxval");
  return real(type);
}

long sysconf(int name) {
  allocate();
  long (*real)(int) = next("sysconf");
  return real(name);
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = va_arg(list, int);
  va_end(list);
  allocate();
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fstat(int file, struct stat *status) {
  allocate();
  return (int)syscall(SYS_fstat, file, status);
}

int fprintf(FILE *stream, const char *format, ...) {
  allocate();
  va_list list;
  va_start(list, format);
  const int result = vfprintf(stream, format, list);
  va_end(list);
  return result;
}
