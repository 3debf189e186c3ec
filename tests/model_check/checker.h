/* What a scenario says to the model checker (docs/concurrency.md, "What is checked, and with what"). A scenario is C
 * that is compiled like the allocator's sources here, with the compiler's thread instrumentation: every access to
 * memory, its own ones too, goes by the checker. */
#ifndef HK_TESTS_MODEL_CHECK_CHECKER_H
#define HK_TESTS_MODEL_CHECK_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHECKER_THREADS_MAX 4

typedef struct {
  const char *name;
  void (*setup)(void);                       /* once; every execution starts from what it leaves */
  void (*thread[CHECKER_THREADS_MAX])(void); /* NULL: no more of them */
  void (*finish)(void);                      /* after each execution, when all threads have ended */
  uint64_t outcomes;                         /* litmus tests: exactly these numbers occur; 0: nobody asks */
  unsigned preemptions;                      /* at most so many, where all are too many; 0: all */
  unsigned preemptions_in_short;             /* the bound at a HAKMEM_TEST_SCALE below 1; 0: as at full length */
  const char *violation;                     /* litmus tests: what must go wrong; NULL: nothing may */
} scenario_t;

/* The scenarios of this program, ended by a name that is NULL. */
extern const scenario_t scenarios[];

/* Ends the execution as a violation when the condition does not hold. */
#define CHECK(condition, sentence)            \
  do {                                        \
    if (!(condition)) checker_fail(sentence); \
  } while (0)
void checker_fail(const char *sentence);

/* A litmus test's result, 0 to 63, from its finish. */
void checker_outcome(unsigned number);

/* What traces call an address. */
void checker_name(const void *address, const char *name);

/* Plain accesses to these bytes may race: the program that is modelled breaks its contract there. Each one is then a
 * point where threads change. From setup. */
void checker_allow_races(const void *start, size_t bytes);

/* Statistics: nobody decides by them. Their updates are done, but are no point where threads change. From setup. */
void checker_ignore(const void *start, size_t bytes);

/* The same for each variable that is loaded while it is on: one that has no name here. From setup. */
void checker_ignore_loaded(bool on);

/* Whether the bytes are mapped in the modelled machine. */
bool checker_is_mapped(const void *start, size_t bytes);

/* The newest mapping reads as zero from here on, as after a fork what was marked for that. From setup. */
void checker_wipe_last_mapping(void);

#ifdef __cplusplus
}
#endif

#endif
