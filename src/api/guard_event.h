/* api/guard_event.h - L5. A memory error that a guard slot has caught. */
#ifndef HK_API_GUARD_EVENT_H
#define HK_API_GUARD_EVENT_H

#include <stdint.h>

#include "os/crash_context.h"
#include "space/guard_slot.h"

/* How the error was noticed. */
typedef enum {
  hk_guard_by_access,      /* a fault: `crash` has the kind of access */
  hk_guard_by_padding,     /* at the block's free: the padding around it had been written to */
  hk_guard_by_free,        /* free got the address */
  hk_guard_by_realloc,     /* realloc did */
  hk_guard_by_usable_size, /* malloc_usable_size did */
} hk_guard_noticed_t;

typedef struct {
  hk_guard_noticed_t by;
  uintptr_t address; /* the touched one, or the one that the function got */
  hk_guard_view_t block;
  const hk_crash_t *crash; /* NULL unless the error is an access */
  hk_guard_deed_t deed;    /* of the calling thread; has no site when the error is an access */
} hk_guard_event_t;

#endif /* HK_API_GUARD_EVENT_H */
