/* policy/misfit.c - L2. See misfit.h. */
#include "policy/misfit.h"

#include <stdbool.h>

#include "base/arithmetic.h"

/* What was there all through it is old. When nobody looked for a whole window more nothing changed in it, and all that is there was. */
static void end_window(hk_misfit_t *misfit, uint64_t now_ms, bool is_long_over) {
  misfit->old_bytes = is_long_over ? misfit->bytes : misfit->least_bytes;
  misfit->least_bytes = SIZE_MAX;
  misfit->window_start_ms = now_ms;
}

void hk_misfit_note(hk_misfit_t *misfit, uint64_t now_ms, uint64_t window_ms, size_t idle_bytes, size_t level_bytes) {
  misfit->gone_bytes = hk_smaller(misfit->gone_bytes, level_bytes);
  size_t bytes = hk_subtract_to_zero(idle_bytes, level_bytes - misfit->gone_bytes);
  uint64_t elapsed_ms = hk_subtract_to_zero(now_ms, misfit->window_start_ms);
  if (elapsed_ms >= window_ms) end_window(misfit, now_ms, elapsed_ms / 2 >= window_ms);
  /* What goes, given back or wanted, is the oldest. */
  misfit->old_bytes = hk_subtract_to_zero(misfit->old_bytes, hk_subtract_to_zero(misfit->bytes, bytes));
  misfit->least_bytes = hk_smaller(misfit->least_bytes, bytes);
  misfit->bytes = bytes;
}

void hk_misfit_note_given_back(hk_misfit_t *misfit, size_t bytes, size_t going_bytes) {
  misfit->gone_bytes += hk_smaller(bytes, hk_subtract_to_zero(going_bytes, misfit->gone_bytes));
}

#if HK_DEBUG
void hk_misfit_check(const hk_misfit_t *misfit) {
  HK_REQUIRE(misfit->old_bytes <= misfit->bytes, "what does not fit and is old is part of what does not fit");
}
#endif
