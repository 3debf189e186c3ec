/* serve/profile_command.h - L10. The heap profile from outside: the commands that begin with "profile". */
#ifndef HK_SERVE_PROFILE_COMMAND_H
#define HK_SERVE_PROFILE_COMMAND_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* As in serve_command.h: NULL, and `out` holds the answer; otherwise why there is none, until the next call. One
 * thread. */

/* Starts the profile; `arguments` is a rate in bytes (none: the option's), and "stay". Any client and the program can
 * stop it. Without "stay" it ends with the client: `*run` is then for hk_profile_command_end, at the client's end. */
const char *hk_profile_command_start(hk_format_t *out, const char *arguments, uint64_t *run);
void hk_profile_command_end(uint64_t run);

const char *hk_profile_command_stop(hk_format_t *out, const char *arguments);

/* {"running":..,"rate":..,"time_ms":..,"duration_ms":..,"samples":..,"lost":..}: of the run that began last; a rate of
 * 0: none did. */
const char *hk_profile_command_state(hk_format_t *out, const char *arguments);

/* What was sampled, also after the end: as gzipped profile.proto, or as JSON with lifetimes and fragmentation. */
const char *hk_profile_command_pprof(hk_format_t *out, const char *arguments);
const char *hk_profile_command_sites(hk_format_t *out, const char *arguments);

HK_C_END

#endif /* HK_SERVE_PROFILE_COMMAND_H */
