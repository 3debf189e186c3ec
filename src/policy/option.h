/* policy/option.h - L2. The options that the user sets. Declared in option.def, read once from the environment.
 *
 * A value that is not accepted gives one line on stderr with the variable, the value, the accepted values, and the
 * default that stays. So does a HAKMEM_ name that is no option, and a name of old_option.def. Names that begin with
 * HAKMEM_CLI_ are the command line tool's, with HAKMEM_TEST_ the tests': they are ignored. Of a variable that the
 * environment has twice the first counts, as for getenv.
 */
#ifndef HK_POLICY_OPTION_H
#define HK_POLICY_OPTION_H

#include <stdint.h>

#include "base/compiler.h"
#include "policy/option_value.h"

HK_C_BEGIN

/* One enum per choice: hk_choice_misuse_t is one of hk_misuse_abort, hk_misuse_warn, hk_misuse_ignore. */
#define HK_WORD(choice, word) hk_##choice##_##word,
#define HK_CHOICE(name, words) typedef enum { words } hk_choice_##name##_t;
#include "policy/option.def"
#undef HK_WORD

/* One field per option. A choice is the value of its enum, a price is in ns of CPU for a MiB-second. A text option is
 * its text, empty when it is not set. */
typedef struct {
#define HK_OPTION(name, type, default_value, min, max, help) uint64_t name;
#define HK_TEXT_OPTION(name, help) const char *name;
#include "policy/option.def"
} hk_option_t;

/* Holds the defaults until hk_option_load writes it, before a second thread exists. Any thread reads it. */
extern HK_HIDDEN hk_option_t hk_option;

/* Returns whether the learner changes the time-outs while the program runs. */
HK_INLINE bool hk_option_is_learning(void) { return hk_option.learn == hk_learn_on; }

/* Reads the environment once; later calls do nothing. Does nothing in a secure-exec program. While the environment is
 * not ready it does nothing, and a later call reads it. */
void hk_option_load(void);

/* Finds the first option from `*index` on whose value is not the default. Sets `*index` to its number, appends its
 * value to `value` as the user would write it, and returns its name. Returns NULL when there is none. */
const char *hk_option_next_set(unsigned *index, hk_format_t *value);

/* Writes one line to stderr: "<variable>=<value> <complaint>: <reason>". For a value that was accepted and cannot be
 * used. */
void hk_option_warn(const char *variable, const char *value, const char *complaint, const char *reason);

/* Writes the same for an option whose value is a number: "<variable>=<value> is not used: <reason>". */
void hk_option_warn_unused(const char *variable, uint64_t number, const char *reason);

HK_C_END

#endif /* HK_POLICY_OPTION_H */
