/* unwind/module_map: the input is an ELF file's headers in memory. A reader of the whole input has to find the same
 * results, where they lie in the input. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "far_memory.h"
#include "fuzz.h"
#include "unwind/module_map.h"

#define SEGMENTS_MAX 64

static const uint8_t *file;
static size_t file_size;
static uintptr_t header;

/* The ELF file of the input. `is_known`: all that the results depend on lies in the input. */
typedef struct {
  bool is_known;
  bool is_elf;
  uintptr_t base;
  unsigned count;
  Elf64_Phdr segments[SEGMENTS_MAX];
} model_t;

static void read_model(model_t *model) {
  Elf64_Ehdr elf;
  *model = (model_t){.is_known = file_size >= sizeof elf};
  if (!model->is_known) return;
  memcpy(&elf, file, sizeof elf);
  bool is_elf = memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == ELFCLASS64 &&
                elf.e_phentsize == sizeof(Elf64_Phdr);
  if (!is_elf) return;
  model->count = elf.e_phnum < SEGMENTS_MAX ? elf.e_phnum : SEGMENTS_MAX;
  size_t bytes = model->count * sizeof(Elf64_Phdr);
  model->is_known = elf.e_phoff <= file_size && bytes <= file_size - elf.e_phoff;
  if (!model->is_known) return;
  memcpy(model->segments, file + elf.e_phoff, bytes);
  for (unsigned i = 0; i < model->count; i++) {
    const Elf64_Phdr *segment = &model->segments[i];
    if (segment->p_type != PT_LOAD) continue;
    model->is_elf = true;
    model->base = header + segment->p_offset - segment->p_vaddr;
    return;
  }
}

static uintptr_t expected_index(const model_t *model) {
  for (unsigned i = 0; model->is_elf && i < model->count; i++) {
    if (model->segments[i].p_type == PT_GNU_EH_FRAME) return model->base + model->segments[i].p_vaddr;
  }
  return 0;
}

static uintptr_t expected_end(const model_t *model) {
  uintptr_t end = 0;
  for (unsigned i = 0; model->is_elf && i < model->count; i++) {
    const Elf64_Phdr *segment = &model->segments[i];
    if (segment->p_type == PT_LOAD) end = model->base + segment->p_vaddr + segment->p_memsz;
  }
  return end;
}

static bool contains(const unsigned char *bytes, size_t count) { return memmem(file, file_size, bytes, count) != NULL; }

static void check_build_id(const model_t *model) {
  char id[HK_BUILD_ID_TEXT_BYTES + 1], again[HK_BUILD_ID_TEXT_BYTES];
  memset(id, 0xa5, sizeof id);
  size_t length = hk_module_build_id(header, id);
  FUZZ_CHECK(length < HK_BUILD_ID_TEXT_BYTES && strlen(id) == length);
  FUZZ_CHECK((unsigned char)id[HK_BUILD_ID_TEXT_BYTES] == 0xa5);
  FUZZ_CHECK(hk_module_build_id(header, again) == length && strcmp(id, again) == 0);
  if (model->is_known && !model->is_elf) FUZZ_CHECK(length == 0);
  if (length == 0) return;
  unsigned char bytes[HK_BUILD_ID_TEXT_BYTES / 2];
  for (size_t i = 0; i < length / 2; i++) FUZZ_CHECK(sscanf(id + 2 * i, "%2hhx", &bytes[i]) == 1);
  /* Notes may lie in the zero bytes before the header: then the name is missing. */
  FUZZ_CHECK(contains((const unsigned char *)ELF_NOTE_GNU, 4) && contains(bytes, length / 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static model_t model;
  file = data;
  file_size = size < FAR_BYTES ? size : FAR_BYTES;
  header = far_memory_put(file, file_size);
  read_model(&model);
  uintptr_t index = hk_module_unwind_index(header), end = hk_module_end(header);
  if (model.is_known) FUZZ_CHECK(index == expected_index(&model) && end == expected_end(&model));
  check_build_id(&model);
  return 0;
}
