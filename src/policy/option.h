/* policy/option.h - L2. What the user set. Declared in option.def, read once from the environment. */
#ifndef HK_POLICY_OPTION_H
#define HK_POLICY_OPTION_H

#include <stdint.h>

#include "base/compiler.h"
#include "policy/option_value.h"

HK_C_BEGIN

/* One enum a choice: hk_choice_misuse_t is one of hk_misuse_abort, hk_misuse_warn, hk_misuse_ignore. */
#define HK_WORD(choice, word) hk_##choice##_##word,
#define HK_CHOICE(name, words) typedef enum { words } hk_choice_##name##_t;
#include "policy/option.def"
#undef HK_WORD

/* One field an option: a uint64_t, which for a choice holds its enum's value and for a price the ns of CPU for a
 * MiB-second; of a text option the text, empty when it was not set. */
typedef struct {
#define HK_OPTION(name, type, default_value, min, max, help) uint64_t name;
#define HK_TEXT_OPTION(name, help) const char *name;
#include "policy/option.def"
} hk_option_t;

/* Written by hk_option_load alone, before a second thread can exist; everybody reads. Holds the defaults until then. */
extern HK_HIDDEN hk_option_t hk_option;

/* Reads HAKMEM_* once; later calls do nothing. Does nothing in a secure-exec program, and nothing yet while the
 * environment is not ready. A bad or out-of-range value, and a HAKMEM_ name that is no option, give one line each on
 * stderr (naming the variable, the value, what is accepted, and the default that stays); so does a name of
 * old_option.def. HAKMEM_CLI_ names are the command line tool's: never looked at. Of a variable that is there twice the
 * first counts, as for getenv. */
void hk_option_load(void);

/* Of the options that are not as they are by default the first one from `*index` on, whose number `*index` becomes: its name,
 * and its value as the user would write it, appended to `value`. NULL when there is none. */
const char *hk_option_next_set(unsigned *index, hk_format_t *value);

/* One line on stderr: "<variable>=<value> <what is wrong with it>". For a value that was accepted and turns out to be of
 * no use. */
void hk_option_warn(const char *variable, const char *value, const char *complaint, const char *reason);

HK_C_END

#endif /* HK_POLICY_OPTION_H */
