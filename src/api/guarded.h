/* api/guarded.h - L5. Guarded blocks: their allocation, their free, and the errors that their slots catch
 * (space/guard_slot.h). api/sampled.h chooses the requests. */
#ifndef HK_API_GUARDED_H
#define HK_API_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/guard_event.h"
#include "base/compiler.h"
#include "heap/sample_countdown.h"
#include "space/guard_slot.h"

HK_C_BEGIN

/* Chosen: docs/experiments/2026-11-25-guards.md has the cost. */
#define HK_GUARD_RATE_RECOMMENDED 1000000

typedef enum { hk_guard_on, hk_guard_no_memory, hk_guard_no_handler } hk_guard_start_t;

/* Sets the rate: one allocation in `rate` is guarded, from 1 to HK_SAMPLING_GUARD_RATE_MAX. The first call makes the
 * slots and installs the handler for faults. Each thread follows at its next slow path. One thread at a time. */
hk_guard_start_t hk_guarded_start(uint64_t rate);

/* Stops guarding blocks. Those that are guarded stay so. */
void hk_guarded_stop(void);

/* Returns the rate; 0 while no block is chosen. */
uint64_t hk_guarded_rate(void);

/* Allocates the chosen block, zeroed. `block_bytes` is the size of the block that an unguarded request would get. With
 * a weight in `choice` the block is also a sample of the profile. Returns NULL and leaves errno unchanged when no slot
 * can be had. */
HK_NOINLINE void *hk_guarded_alloc(size_t size, size_t alignment, size_t block_bytes, const hk_sample_choice_t *choice);

/* Frees a guarded block, or reports the address that is none. Requires an address in a slot. */
HK_COLD void hk_guarded_free(uintptr_t address);

/* Frees all guarded blocks of a named heap. Returns how many, and sets `*bytes` to theirs. */
struct hk_named;
uint64_t hk_guarded_free_named(const struct hk_named *named, uint64_t *bytes);

/* Notes an error, and returns whether it is to be reported: each error if the program ends at it, else one for each
 * `place`, which is any number that stands for the calls in which the error was noticed. Any thread; safe in a signal
 * handler. */
bool hk_guarded_note_place(uint64_t place);

/* Reports an address of a slot at a function that requires a live block. Returns false when the address lies in no slot
 * that has a block. `by` is hk_guard_by_free or a later value. */
HK_COLD bool hk_guarded_misuse(hk_guard_noticed_t by, uintptr_t address);

HK_C_END

#endif /* HK_API_GUARDED_H */
