/* Where huge pages are: huge_pages ROUNDS
 *
 * Makes and frees ROUNDS dense blocks of 8 MiB, keeps one more, and fills a superslab with blocks of 1,000 bytes.
 * Prints the mapping's flags "hg" or "nh" and the KiB in huge pages (/proc/self/smaps) of the large block and of the
 * small ones.
 */
#include "check.h"

/* Allocates nothing: reads in pieces, and looks at one line at a time. */
static void print_mapping(const char *name, const void *block) {
  static char line[4096];
  int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  size_t length = 0;
  int is_inside = 0;
  long kib = -1;
  char character;
  while (read(file, &character, 1) == 1) {
    if (character != '\n') {
      if (length + 1 < sizeof line) line[length++] = character;
      continue;
    }
    line[length] = ' ';
    line[length < sizeof line - 1 ? length + 1 : length] = '\0';
    length = 0;
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) is_inside = from <= (uintptr_t)block && (uintptr_t)block < to;
    if (is_inside && strncmp(line, "AnonHugePages:", 14) == 0) kib = atol(line + 14);
    if (!is_inside || strncmp(line, "VmFlags:", 8) != 0) continue;
    const char *flag = strstr(line, " hg ") != NULL ? "hg" : strstr(line, " nh ") != NULL ? "nh" : "--";
    dprintf(1, "%s %s %ld\n", name, flag, kib);
  }
  close(file);
}

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  for (int round = atoi(argv[1]); round > 0; round--) {
    char *block = malloc(8 * MIB);
    CHECK(block != NULL);
    paint(block, 8 * MIB, 1);
    free(block);
  }
  char *large = malloc(8 * MIB);
  CHECK(large != NULL);
  paint(large, 8 * MIB, 2);
  char *small = NULL;
  for (size_t i = 0; i < 3 * MIB / 1000; i++) {
    small = malloc(1000);
    CHECK(small != NULL);
    paint(small, 1000, 3);
  }
  print_mapping("large", large);
  print_mapping("small", small);
  CHECK(is_painted(large, 8 * MIB, 2));
  return 0;
}
