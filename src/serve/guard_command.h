/* serve/guard_command.h - L10. The commands that begin with "guard": sampled guards, for the command line tool. */
#ifndef HK_SERVE_GUARD_COMMAND_H
#define HK_SERVE_GUARD_COMMAND_H

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Each function answers as hk_serve_command does. Only the serve thread calls them. */

/* Sets the rate: `arguments` is a number, or nothing for the recommended rate. */
const char *hk_guard_command_start(hk_format_t *out, const char *arguments);

/* Guards no further block. Those that are guarded stay so. */
const char *hk_guard_command_stop(hk_format_t *out, const char *arguments);

/* Answers {"rate":..,"recommended":..,"slots":..,"large_slots":..,"live":..,"live_bytes":..,"protected":..,
 * "age_ms":..,"guarded":..,"missed":..,"found":..}. */
const char *hk_guard_command_state(hk_format_t *out, const char *arguments);

HK_C_END

#endif /* HK_SERVE_GUARD_COMMAND_H */
