/* The same library with larger frames. */
#define FRAME_BYTES 88
#include "framed_plugin.c"
