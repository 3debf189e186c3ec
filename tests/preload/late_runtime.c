/* A C program that gets a C++ runtime only with a plugin: its operators fail there as C++ says that they do. argv[1]
 * is the plugin (shim/cxx_plugin.cc). */
#include <dlfcn.h>

#include "check.h"

int main(int argc, char **argv) {
  if (argc != 2) return exit_usage;
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) return exit_failed;
  int (*throwing)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_throwing_new");
  int (*quiet)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_nothrow_new");
  int (*handled)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_nothrow_new_with_handler");
  if (throwing == NULL || quiet == NULL || handled == NULL) return exit_failed;
  size_t impossible = (size_t)1 << 62;
  printf("%d %d ", throwing(100), throwing(impossible));
  printf("%d %d %d %d\n", quiet(100), quiet(impossible), handled(100), handled(impossible));
  return 0;
}
