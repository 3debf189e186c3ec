/* Allocates 64 bytes as often as its first argument says. Then it allocates and frees blocks of a few sizes where the
 * second argument is "few", and also resizes them, larger ones too, where it is "many". Then it prints its own
 * /proc/self/smaps. It uses no stdio, which would touch more of the C library. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void use_few_sizes(void) {
  static const size_t sizes[] = {24, 100, 400, 1000, 3000, 9000};
  enum { count = sizeof sizes / sizeof *sizes };
  char *volatile blocks[count];
  for (int i = 0; i < count; i++) *(blocks[i] = malloc(sizes[i])) = 1;
  for (int i = 0; i < count; i++) free(blocks[i]);
}

static void use_many_ways(void) {
  static const size_t sizes[] = {24, 100, 400, 1000, 3000, 9000, 40000};
  enum { count = sizeof sizes / sizeof *sizes };
  char *volatile blocks[count];
  for (int i = 0; i < count; i++) {
    blocks[i] = i % 2 == 0 ? malloc(sizes[i]) : calloc(1, sizes[i]);
    *blocks[i] = 1;
  }
  for (int i = 0; i < count; i++) *(blocks[i] = realloc(blocks[i], 3 * sizes[i])) = 1;
  for (int i = 0; i < count; i++) free(blocks[i]);
}

int main(int count, char **arguments) {
  static char text[1 << 16];
  for (int left = count > 1 ? atoi(arguments[1]) : 0; left > 0; left--) {
    char *volatile block = malloc(64);
    *block = 1;
    free(block);
  }
  const char *use = count > 2 ? arguments[2] : "";
  if (strcmp(use, "few") == 0) use_few_sizes();
  if (strcmp(use, "many") == 0) use_many_ways();
  int file = open("/proc/self/smaps", O_RDONLY);
  for (ssize_t length; (length = read(file, text, sizeof text)) > 0;) {
    if (write(STDOUT_FILENO, text, (size_t)length) != length) return 1;
  }
  return 0;
}
