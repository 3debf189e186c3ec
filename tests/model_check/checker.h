/* The scenarios' interface to the model checker (docs/concurrency.md, "What is checked, and with what"). A scenario
 * is C code. It is compiled as the allocator's sources are here, with the compiler's thread instrumentation: the
 * checker handles every access to memory, the scenario's own ones too. */
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
  void (*setup)(void);                       /* once; every execution starts from the state after it */
  void (*thread[CHECKER_THREADS_MAX])(void); /* NULL: no further thread */
  void (*finish)(void);                      /* in each execution, when all threads have ended */
  uint64_t outcomes;                         /* litmus tests: exactly these numbers occur; 0: any */
  unsigned preemptions;                      /* the most in one execution; 0: no bound */
  unsigned preemptions_in_short;             /* the same at a HAKMEM_TEST_SCALE below 1; 0: as at full length */
  const char *violation;                     /* litmus tests: the violation that has to occur; NULL: none may */
} scenario_t;

/* The scenarios of this program. The last one's name is NULL. */
extern const scenario_t scenarios[];

/* Ends the execution with a violation when the condition does not hold. */
#define CHECK(condition, sentence)            \
  do {                                        \
    if (!(condition)) checker_fail(sentence); \
  } while (0)
void checker_fail(const char *sentence);

/* Reports a litmus test's result, 0 to 63, from its finish. */
void checker_outcome(unsigned number);

/* Sets an address's name in traces. */
void checker_name(const void *address, const char *name);

/* Lets plain accesses to these bytes race, because the modelled program breaks its contract there. Threads change at
 * each such access. From setup. */
void checker_allow_races(const void *start, size_t bytes);

/* Ignores statistics, on which no decision depends: their updates happen, but threads do not change there. From
 * setup. */
void checker_ignore(const void *start, size_t bytes);

/* While it is on, ignores each variable that is loaded: for those without a name here. From setup. */
void checker_ignore_loaded(bool on);

/* Returns whether the bytes are mapped in the modelled machine. */
bool checker_is_mapped(const void *start, size_t bytes);

/* Makes the newest mapping zero, as a fork does with memory to be wiped. From setup. */
void checker_wipe_last_mapping(void);

#ifdef __cplusplus
}
#endif

#endif
