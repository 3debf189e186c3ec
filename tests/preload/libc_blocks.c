/* Blocks that cross the border to the C library: it allocates and we free, or we allocate and it grows or frees. */
#include "check.h"

#include <dirent.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <obstack.h>
#include <regex.h>
#include <search.h>
#include <stdarg.h>
#include <wchar.h>
#include <wordexp.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static void test_strings(void) {
  char *copy = strdup("a string"), *part = strndup("a string", 3);
  CHECK(strcmp(copy, "a string") == 0 && strcmp(part, "a s") == 0);
  free(copy);
  free(part);
  wchar_t *wide = wcsdup(L"wide");
  CHECK(wcscmp(wide, L"wide") == 0);
  free(wide);
  char *text;
  CHECK(asprintf(&text, "%0*d", 5000, 7) == 5000 && strlen(text) == 5000);
  text = realloc(text, 100000);
  CHECK(text != NULL && text[4999] == '7');
  free(text);
  CHECK(sscanf("one two", "%ms", &text) == 1 && strcmp(text, "one") == 0);
  free(text);
}

static void test_getline(void) {
  FILE *file = tmpfile();
  CHECK(file != NULL);
  for (int i = 1; i < 4000; i *= 3) fprintf(file, "%0*d\n", i, 0);
  rewind(file);
  size_t capacity = 4;
  char *line = malloc(capacity); /* the C library grows our block */
  for (int i = 1; i < 4000; i *= 3) CHECK(getline(&line, &capacity, file) == i + 1 && capacity > (size_t)i);
  CHECK(getline(&line, &capacity, file) == -1);
  free(line);
  rewind(file);
  char *word = NULL;
  capacity = 0;
  CHECK(getdelim(&word, &capacity, '\n', file) == 2);
  free(word);
  fclose(file);
}

static void test_streams(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  for (int i = 0; i < 20000; ++i) fprintf(stream, "%d,", i);
  CHECK(fclose(stream) == 0 && length == strlen(text));
  free(text);

  char *buffer = malloc(1 << 16);
  FILE *file = tmpfile();
  CHECK(setvbuf(file, buffer, _IOFBF, 1 << 16) == 0);
  for (int i = 0; i < 50000; ++i) fputs("line\n", file);
  CHECK(ftell(file) == 250000 && fclose(file) == 0);
  free(buffer);

  FILE *pipe = popen("echo hello", "r");
  char line[32];
  CHECK(pipe != NULL && fgets(line, sizeof line, pipe) != NULL && strcmp(line, "hello\n") == 0 && pclose(pipe) == 0);
}

static void test_paths(void) {
  char *here = getcwd(NULL, 0), *real = realpath(".", NULL);
  CHECK(here != NULL && real != NULL && strcmp(here, real) == 0);
  free(here);
  free(real);
  struct dirent **entries;
  const int count = scandir("/", &entries, NULL, alphasort);
  CHECK(count > 2);
  for (int i = 0; i < count; ++i) free(entries[i]);
  free(entries);
  DIR *folder = opendir("/");
  CHECK(folder != NULL && readdir(folder) != NULL && closedir(folder) == 0);
  wordexp_t words;
  CHECK(wordexp("a b 'c d'", &words, WRDE_NOCMD) == 0 && words.we_wordc == 3);
  wordfree(&words);
}

static int compare(const void *left, const void *right) { return strcmp(left, right); }

static void test_containers(void) {
  void *root = NULL;
  char names[100][8];
  for (int i = 0; i < 100; ++i) {
    snprintf(names[i], sizeof names[i], "%d", i * 7919 % 1000);
    CHECK(tsearch(names[i], &root, compare) != NULL);
  }
  for (int i = 0; i < 100; ++i) CHECK(tdelete(names[i], &root, compare) != NULL);
  CHECK(hcreate(1000) != 0);
  hdestroy();
  struct obstack stack;
  obstack_init(&stack);
  for (int i = 0; i < 1000; ++i) CHECK(obstack_copy(&stack, names[i % 100], 8) != NULL);
  obstack_free(&stack, NULL);
  regex_t regex;
  CHECK(regcomp(&regex, "^(a|b)*[0-9]{1,20}(x+y)*$", REG_EXTENDED) == 0);
  CHECK(regexec(&regex, "abba0123xxy", 0, NULL, 0) == 0);
  regfree(&regex);
}

static void test_locale_and_net(void) {
  CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL || setlocale(LC_ALL, "C") != NULL);
  locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
  CHECK(locale != NULL);
  freelocale(locale);
  iconv_t converter = iconv_open("UTF-16", "UTF-8");
  if (converter != (iconv_t)-1) iconv_close(converter);
  struct addrinfo *found = NULL, hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
  freeaddrinfo(found);
  CHECK(setenv("PRELOAD_TEST", "a value", 1) == 0 && putenv(strdup("PRELOAD_OTHER=1")) == 0);
  CHECK(unsetenv("PRELOAD_TEST") == 0);
}

static int compare_numbers(const void *left, const void *right) {
  return (*(const int *)left > *(const int *)right) - (*(const int *)left < *(const int *)right);
}

static void test_qsort(void) {
  enum { count = 30000 };
  int *numbers = malloc(count * sizeof *numbers);
  for (int i = 0; i < count; ++i) numbers[i] = (int)((unsigned)i * 2654435761u >> 3);
  qsort(numbers, count, sizeof *numbers, compare_numbers); /* allocates its scratch space */
  for (int i = 1; i < count; ++i) CHECK(numbers[i - 1] <= numbers[i]);
  free(numbers);
}

int main(void) {
  for (int round = 0; round < 3; ++round) {
    test_strings();
    test_getline();
    test_streams();
    test_paths();
    test_containers();
    test_locale_and_net();
    test_qsort();
  }
  puts("ok");
  return 0;
}
