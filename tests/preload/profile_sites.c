/* A program of ten known sites, of 16 bytes to 10 MiB a block: each has BYTES_EACH live after `fill`. It does what its
 * arguments say, and without any what the lines on its stdin say, with `ok` after each:
 *   fill      each site asks for its blocks
 *   empty     and they are freed
 *   thin      of the blocks of 200 bytes only every 16th stays
 *   churn     one block is allocated and freed, over and over, at a site of its own
 *   threads   four threads do the same
 *   plugin    the library PROFILE_PLUGIN is loaded, asks for memory that stays, and is closed, ten times
 *   fork      a child asks for 8 MiB at a site of its own, and exits; its number is printed
 *   block     one site asks for a single block, whose address is printed
 *   quit      the program ends by _exit  */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

#define SITE_COUNT 10
#define BYTES_EACH (20 * MIB)
#define CHILD_BYTES (8 * MIB)
#define CHURN_BYTES 1000
#define CHURN_COUNT 200000
#define THREAD_COUNT 4

static const size_t sizes[SITE_COUNT] = {16, 48, 200, 1000, 5000, 20000, 60000, 300000, 2 * MIB, 10 * MIB};
static void **blocks[SITE_COUNT];

/* One function a site, which is neither inlined nor left by a jump. */
#define SITE(name)                                              \
  __attribute__((noinline, noclone)) void *name(size_t bytes) { \
    void *volatile block = malloc(bytes);                       \
    return block;                                               \
  }
SITE(site_0)
SITE(site_1)
SITE(site_2)
SITE(site_3)
SITE(site_4)
SITE(site_5)
SITE(site_6)
SITE(site_7)
SITE(site_8)
SITE(site_9)
SITE(site_churn)
SITE(site_child)
SITE(site_table)
static void *(*const sites[SITE_COUNT])(size_t) = {site_0, site_1, site_2, site_3, site_4,
                                                   site_5, site_6, site_7, site_8, site_9};

static size_t count_of(int site) { return BYTES_EACH / sizes[site]; }

static void fill(void) {
  for (int site = 0; site < SITE_COUNT; site++) {
    blocks[site] = site_table(count_of(site) * sizeof(void *));
    for (size_t i = 0; i < count_of(site); i++) CHECK((blocks[site][i] = sites[site](sizes[site])) != NULL);
  }
}

static void empty(void) {
  for (int site = 0; site < SITE_COUNT; site++) {
    for (size_t i = 0; i < count_of(site); i++) free(blocks[site][i]);
    free(blocks[site]);
  }
}

static void thin(void) {
  for (size_t i = 0; i < count_of(2); i++) {
    if (i % 16 == 0) continue;
    free(blocks[2][i]);
    blocks[2][i] = NULL;
  }
}

static void *churn(void *unused) {
  for (int i = 0; i < CHURN_COUNT; i++) free(site_churn(CHURN_BYTES));
  return unused;
}

static void churn_in_threads(void) {
  pthread_t threads[THREAD_COUNT];
  /* Sampled first: on musl the library then lists the modules, and what other threads sample meanwhile has no stack. */
  free(site_table(1 << 20));
  for (int i = 0; i < THREAD_COUNT; i++) CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0);
  for (int i = 0; i < THREAD_COUNT; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void use_plugin(void) {
  for (int i = 0; i < 10; i++) {
    void *plugin = dlopen(getenv("PROFILE_PLUGIN"), RTLD_NOW);
    CHECK(plugin != NULL);
    void (*work)(void) = (void (*)(void))dlsym(plugin, "plugin_work");
    CHECK(work != NULL);
    work();
    CHECK(dlclose(plugin) == 0);
  }
}

static void fork_one(void) {
  const pid_t child = fork();
  if (child == 0) {
    for (size_t bytes = 0; bytes < CHILD_BYTES; bytes += CHURN_BYTES) CHECK(site_child(CHURN_BYTES) != NULL);
    exit(0);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  printf("%d ", child);
}

static void obey(const char *line) {
  if (strcmp(line, "fill") == 0) fill();
  if (strcmp(line, "empty") == 0) empty();
  if (strcmp(line, "thin") == 0) thin();
  if (strcmp(line, "churn") == 0) churn(NULL);
  if (strcmp(line, "threads") == 0) churn_in_threads();
  if (strcmp(line, "plugin") == 0) use_plugin();
  if (strcmp(line, "fork") == 0) fork_one();
  if (strcmp(line, "block") == 0) printf("%p ", site_4(sizes[4]));
  if (strcmp(line, "quit") == 0) _exit(0);
}

int main(int count, char **words) {
  alarm(120);
  for (int i = 1; i < count; i++) obey(words[i]);
  if (count > 1) return 0;
  for (char line[64]; printf("ok\n"), fflush(stdout), fgets(line, sizeof line, stdin) != NULL;) {
    line[strcspn(line, "\n")] = '\0';
    obey(line);
  }
  return 0;
}
