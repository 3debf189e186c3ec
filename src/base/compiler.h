/* base/compiler.h - L0. Extensions of the compilers beyond C17, under one name each. C++ (the tests) includes the
 * headers too. */
#ifndef HK_BASE_COMPILER_H
#define HK_BASE_COMPILER_H

#define HK_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HK_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define HK_INLINE static inline __attribute__((always_inline))
#define HK_NOINLINE __attribute__((noinline))
#define HK_COLD __attribute__((cold, noinline))
#define HK_NOTHROW __attribute__((nothrow)) /* a C++ function may call it last, without a frame of its own */
#define HK_HIDDEN __attribute__((visibility("hidden")))
#define HK_NORETURN __attribute__((noreturn))

/* Enclose every header's declarations. */
#ifdef __cplusplus
#define HK_C_BEGIN extern "C" {
#define HK_C_END }
#else
#define HK_C_BEGIN
#define HK_C_END
#endif

/* Reached by one instruction, without a call into the dynamic linker, from the first instruction of the process on. In
 * exchange the library takes a few bytes of the static TLS block. */
#ifdef __cplusplus
#define HK_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#else
#define HK_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#endif

/* 1 in a build whose memory a sanitizer watches: the sanitizer must then see each mapping and unmapping. The build
 * defines the macro itself for tests that link such a core but are not instrumented themselves. */
#if defined(HK_SANITIZED)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HK_SANITIZED 1
#endif
#endif
#ifndef HK_SANITIZED
#define HK_SANITIZED 0
#endif

#define HK_CACHE_LINE_BYTES 64

/* Hides the origin of a value in a register from the compiler. Costs no instruction. */
#define HK_FORGET(value) __asm__("" : "+r"(value))

/* Makes the compiler form a sum with `value`, and read memory, anew in each instruction that follows. On x86-64 both
 * are part of an instruction's operand and cost none. Elsewhere they cost one, and the macro does nothing. */
#if defined(__x86_64__)
#define HK_FOLD(value) __asm__ __volatile__("" : "+r"(value) : : "memory")
#else
#define HK_FOLD(value) (void)(value)
#endif

#define HK_CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif /* HK_BASE_COMPILER_H */
