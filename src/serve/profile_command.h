/* serve/profile_command.h - L10. The commands that begin with "profile": the heap profile for the command line tool. */
#ifndef HK_SERVE_PROFILE_COMMAND_H
#define HK_SERVE_PROFILE_COMMAND_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/format.h"

HK_C_BEGIN

/* Each function answers as hk_serve_command does: it returns NULL and `out` holds the answer, or it returns the reason
 * why there is none, valid until the next call. Only the serve thread calls them. */

/* Starts the profile. `arguments` is a rate in bytes (none: the option's rate) and "stay". Any client and the program
 * can stop the profile. Without "stay" it ends with the client: `*run` is then for hk_profile_command_end at the
 * client's end. */
const char *hk_profile_command_start(hk_format_t *out, const char *arguments, uint64_t *run);
void hk_profile_command_end(uint64_t run);

const char *hk_profile_command_stop(hk_format_t *out, const char *arguments);

/* Answers {"running":..,"rate":..,"time_ms":..,"duration_ms":..,"samples":..,"lost":..} for the run that began last.
 * The rate is 0 before the first run. */
const char *hk_profile_command_state(hk_format_t *out, const char *arguments);

/* Answer with the samples, also after the end of the run: as gzipped profile.proto, or as JSON with lifetimes and
 * fragmentation. */
const char *hk_profile_command_pprof(hk_format_t *out, const char *arguments);
const char *hk_profile_command_sites(hk_format_t *out, const char *arguments);

HK_C_END

#endif /* HK_SERVE_PROFILE_COMMAND_H */
