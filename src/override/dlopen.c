/* override/dlopen.c - L11. dlopen and dlmopen without RTLD_DEEPBIND, in the shared libraries alone.
 *
 * A module that is opened with the flag binds malloc and free to the C library that it is linked with, ahead of any
 * preloaded one. A block that crosses the module's border then reaches the wrong allocator. Without the flag the module
 * binds as every other one. The option `deepbind` keeps the flag. Besides, the profile forgets the code of modules that
 * were unloaded: the new one may get their addresses.
 *
 * The C library takes its return address for the caller: the caller's namespace, search path and $ORIGIN follow from
 * it. So both functions change the flags and jump to the C library's own. C has no such jump, so they are assembly. The
 * archive does not define them: a static program has no next definition to jump to. musl has neither the flag nor
 * dlmopen.
 */
#include "os/c_library.h"

#if HK_WEAK_RUNTIME && !HK_ON_MUSL

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample_hook.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "os/loaded_symbol.h"
#include "policy/option.h"

typedef void (*function_t)(void);

/* Fits two registers, in which the assembly finds it. */
typedef struct {
  function_t next; /* where to jump to */
  long flags;
} hk_dlopen_jump_t;

/* Called by the assembly below. */
HK_HIDDEN __attribute__((used)) hk_dlopen_jump_t hk_dlopen_prepare(int flags);
HK_HIDDEN __attribute__((used)) hk_dlopen_jump_t hk_dlopen_prepare_namespace(int flags);

/* This library's definitions, whatever the program binds the names to. */
HK_HIDDEN void hk_own_dlopen(void);
HK_HIDDEN void hk_own_dlmopen(void);

/* Stands in for either function where no next definition is found. Ignores their arguments. */
static void *refuse(void) { return NULL; }

static function_t of_the_c_library(const char *name) {
  Dl_info info;
  if (dladdr(__extension__(void *) __errno_location, &info) == 0) return NULL;
  return (function_t)hk_loaded_symbol_find((uintptr_t)info.dli_fbase, name);
}

/* Returns the next definition of `name`. RTLD_NEXT is relative to the caller of the C library's dlsym, which may be a
 * library that interposes dlsym. If that one precedes this library in the search order, dlsym returns `own`; then the C
 * library's function is taken. */
static function_t find_next(const char *name, function_t own) {
  function_t found = __extension__(function_t) dlsym(RTLD_NEXT, name);
  if (found == own) found = of_the_c_library(name);
  return found != NULL && found != own ? found : (function_t)refuse;
}

/* Several threads may be the first: each finds the same function. */
static hk_dlopen_jump_t prepare(_Atomic(function_t) *next, const char *name, function_t own, int flags) {
  function_t found = hk_load_relaxed(next);
  if (found == NULL) {
    found = find_next(name, own);
    hk_store_relaxed(next, found);
  }
  hk_sample_hook_forget_code();
  hk_option_load(); /* a library's constructor may call before this library's own has run */
  return (hk_dlopen_jump_t){found, hk_option.deepbind ? flags : flags & ~RTLD_DEEPBIND};
}

hk_dlopen_jump_t hk_dlopen_prepare(int flags) {
  static _Atomic(function_t) next;
  return prepare(&next, "dlopen", hk_own_dlopen, flags);
}

hk_dlopen_jump_t hk_dlopen_prepare_namespace(int flags) {
  static _Atomic(function_t) next;
  return prepare(&next, "dlmopen", hk_own_dlmopen, flags);
}

#define LABEL(name) ".globl " name "\n.type " name ", %function\n" name ":\n"
#define FUNCTION(name, body)                                                                \
  __asm__(                                                                                  \
      ".text\n.balign 16\n"                                                                 \
      ".hidden hk_own_" name "\n" LABEL(name) LABEL("hk_own_" name) ".cfi_startproc\n" body \
                                                                    ".cfi_endproc\n"        \
                                                                    ".size " name ", .-" name "\n")

/* void *dlopen(const char *file, int flags), void *dlmopen(Lmid_t namespace, const char *file, int flags) */
#if defined(__x86_64__)

#define PUSH(register) "pushq %" register "\n.cfi_adjust_cfa_offset 8\n"
#define POP(register) "popq %" register "\n.cfi_adjust_cfa_offset -8\n"

FUNCTION("dlopen",
         "endbr64\n" PUSH("rdi")
         "movl %esi, %edi\n"
         "call hk_dlopen_prepare\n"
         "movl %edx, %esi\n" POP("rdi")
         "jmp *%rax\n");

FUNCTION("dlmopen",
         "endbr64\n" PUSH("rdi") PUSH("rsi") PUSH("rdx")
         "movl %edx, %edi\n"
         "call hk_dlopen_prepare_namespace\n" POP("rcx") POP("rsi") POP("rdi")
         "jmp *%rax\n");

#elif defined(__aarch64__)

/* `hint 34` is bti c, which does nothing where branch targets are not checked. A branch by x16 may go to such a
 * place. */
#define ENTER                   \
  "hint 34\n"                   \
  "stp x29, x30, [sp, #-32]!\n" \
  ".cfi_def_cfa_offset 32\n"    \
  ".cfi_offset 29, -32\n"       \
  ".cfi_offset 30, -24\n"       \
  "mov x29, sp\n"               \
  "stp x0, x1, [sp, #16]\n"
#define LEAVE                 \
  "ldp x29, x30, [sp], #32\n" \
  ".cfi_restore 29\n"         \
  ".cfi_restore 30\n"         \
  ".cfi_def_cfa_offset 0\n"   \
  "br x16\n"

/* hk_dlopen_prepare returns the flags in x1. */
FUNCTION("dlopen", ENTER
         "mov w0, w1\n"
         "bl hk_dlopen_prepare\n"
         "mov x16, x0\n"
         "ldr x0, [sp, #16]\n" LEAVE);

FUNCTION("dlmopen", ENTER
         "mov w0, w2\n"
         "bl hk_dlopen_prepare_namespace\n"
         "mov x16, x0\n"
         "mov w2, w1\n"
         "ldp x0, x1, [sp, #16]\n" LEAVE);

#else
#error "no jump to the next dlopen is written for this processor"
#endif

#endif
