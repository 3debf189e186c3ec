/* unwind/unwind.c - L6. See unwind.h. */
#include "unwind/unwind.h"

#include "unwind/frame.h"
#include "unwind/here.h"

HK_NOINLINE unsigned hk_unwind(uintptr_t *frames, unsigned most, unsigned skip) {
  hk_frame_t frame;
  hk_frame_source_t source;
  hk_frame_here(&frame);
  hk_frame_source_init(&source, frame.registers[hk_frame_sp]);
  unsigned count = 0;
  while (count < most && hk_frame_step(&frame, &source)) {
    if (skip > 0) {
      skip--;
    } else {
      frames[count++] = frame.pc + 1;
    }
  }
  return count;
}
