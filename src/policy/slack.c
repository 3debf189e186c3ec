/* policy/slack.c - L2. See slack.h. */
#include "policy/slack.h"

#include <stdbool.h>

#include "base/arithmetic.h"

/* The bytes that were there all through the window are old. After a second window without a look nothing has changed
 * in it, so all bytes are old. */
static void end_window(hk_slack_t *slack, uint64_t now_ms, bool is_long_over) {
  slack->old_bytes = is_long_over ? slack->bytes : slack->least_bytes;
  slack->least_bytes = SIZE_MAX;
  slack->window_start_ms = now_ms;
}

void hk_slack_note(hk_slack_t *slack, uint64_t now_ms, uint64_t window_ms, size_t dirty_bytes, size_t level_bytes) {
  slack->gone_bytes = hk_smaller(slack->gone_bytes, level_bytes);
  size_t bytes = hk_subtract_to_zero(dirty_bytes, level_bytes - slack->gone_bytes);
  uint64_t elapsed_ms = hk_subtract_to_zero(now_ms, slack->window_start_ms);
  if (elapsed_ms >= window_ms) end_window(slack, now_ms, elapsed_ms / 2 >= window_ms);
  /* Bytes that leave, purged or taken, are the oldest. */
  slack->old_bytes = hk_subtract_to_zero(slack->old_bytes, hk_subtract_to_zero(slack->bytes, bytes));
  slack->least_bytes = hk_smaller(slack->least_bytes, bytes);
  slack->bytes = bytes;
}

void hk_slack_note_purged(hk_slack_t *slack, size_t bytes, size_t going_bytes) {
  slack->gone_bytes += hk_smaller(bytes, hk_subtract_to_zero(going_bytes, slack->gone_bytes));
}

#if HK_DEBUG
void hk_slack_check(const hk_slack_t *slack) {
  HK_REQUIRE(slack->old_bytes <= slack->bytes, "old fragmentation slack is part of the slack");
}
#endif
