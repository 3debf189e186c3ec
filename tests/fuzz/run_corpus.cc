// Runs fuzz targets without libFuzzer: each input of a target's corpus, and then random changes of them. It measures no
// coverage. It is for compilers and sanitizers that have no libFuzzer, and for the tests.
//
//   fuzz_corpus --target=NAME [--mutations=N] [--seconds=N] [FILE or FOLDER...]
//
// Without files it runs tests/fuzz/corpus/NAME. HAKMEM_TEST_SCALE multiplies the mutations, HAKMEM_TEST_SEED repeats
// them. It writes an input that fails to fuzz-failure-NAME.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.h"
#include "scale.h"
#include "test_random.h"

// The entry points of the targets' sources, which the build renames.
#define FUZZ_TARGET(name) extern "C" int fuzz_##name(const uint8_t *data, size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

namespace {

namespace fs = std::filesystem;
using hk_test::TestRandom;
using Input = std::vector<uint8_t>;

struct Target {
  const char *name;
  int (*run)(const uint8_t *data, size_t size);
};

const Target kTargets[] = {
#define FUZZ_TARGET(name) {#name, fuzz_##name},
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
};

constexpr size_t kMostBytes = 4096;
constexpr unsigned kMostSeconds = 60;  // for one input
constexpr unsigned kMostChanges = 6;   // in one mutation

// ---- The input that fails.

const Input *running;
char failure_name[64];

void KeepInput() {
  if (running == nullptr) return;
  int file = open(failure_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file >= 0) {
    bool is_written =
        write(file, running->data(), running->size()) == static_cast<ssize_t>(running->size()) && close(file) == 0;
    dprintf(STDERR_FILENO, "the input is%s in %s\n", is_written ? "" : " not", failure_name);
  }
  running = nullptr;
}

void OnSignal(int number) {
  if (number == SIGALRM) dprintf(STDERR_FILENO, "one input takes more than %u s\n", kMostSeconds);
  KeepInput();
  signal(number, SIG_DFL);
  raise(number);
}

void KeepWhatFails(const char *name) {
  snprintf(failure_name, sizeof failure_name, "fuzz-failure-%s", name);
  // A sanitizer handles the other signals itself.
  for (int number : {SIGABRT, SIGALRM}) signal(number, OnSignal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(KeepInput);
  } else {
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) signal(number, OnSignal);
  }
}

void RunOne(const Target &target, const Input &input) {
  // A copy without spare room, so that a sanitizer notices each read beyond it.
  Input copy(input.begin(), input.end());
  copy.shrink_to_fit();
  running = &input;
  alarm(kMostSeconds);
  static const uint8_t nothing = 0;
  target.run(copy.empty() ? &nothing : copy.data(), copy.size());
  alarm(0);
  running = nullptr;
}

// ---- Inputs.

void Load(const fs::path &path, std::vector<Input> *corpus) {
  if (fs::is_directory(path)) {
    std::vector<fs::path> files;
    for (const auto &entry : fs::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path &file : files) Load(file, corpus);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fprintf(stderr, "cannot read %s\n", path.c_str());
    exit(2);
  }
  corpus->push_back({std::istreambuf_iterator<char>(file), {}});
}

// Returns words of the corpus, and numbers at limits: random bytes rarely form one.
std::vector<Input> Words(const std::vector<Input> &corpus) {
  std::vector<Input> words;
  for (const char *text : {"0", "-1", "255", "4095", "65536", "2147483648", "4294967296", "9223372036854775807",
                           "18446744073709551615", "18446744073709551616", "ffffffffffffffff", "0x", " ", "\n", "%p"}) {
    words.emplace_back(text, text + strlen(text));
  }
  for (const Input &input : corpus) {
    Input word;
    for (uint8_t byte : input) {
      if (isalnum(byte) || byte == '_' || byte == '.') {
        word.push_back(byte);
      } else if (word.size() > 1 && words.size() < 1000) {
        words.push_back(word);
        word.clear();
      } else {
        word.clear();
      }
    }
  }
  return words;
}

class Mutator {
 public:
  Mutator(const std::vector<Input> &corpus, uint64_t seed) : corpus_(corpus), words_(Words(corpus)), random_(seed) {}

  Input Next() {
    Input input = corpus_[random_.Below(corpus_.size())];
    for (size_t changes = random_.Between(1, kMostChanges); changes > 0; changes--) Change(&input);
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    return input;
  }

 private:
  static constexpr uint8_t kBytes[] = {0, 1, 2, 7, 8, 0x0a, 0x20, 0x2f, 0x3a, 0x7f, 0x80, 0xfe, 0xff};

  size_t Place(const Input &input) { return random_.Below(input.size() + 1); }

  Input Piece(const Input &of) {
    if (of.empty()) return {};
    size_t start = random_.Below(of.size());
    size_t length = std::min(random_.LogBetween(1, 256), of.size() - start);
    return {of.begin() + static_cast<ptrdiff_t>(start), of.begin() + static_cast<ptrdiff_t>(start + length)};
  }

  void Insert(Input *input, const Input &piece) {
    input->insert(input->begin() + static_cast<ptrdiff_t>(Place(*input)), piece.begin(), piece.end());
  }

  void Overwrite(Input *input, const Input &piece) {
    size_t at = Place(*input);
    size_t length = std::min(piece.size(), input->size() - at);
    std::copy_n(piece.begin(), length, input->begin() + static_cast<ptrdiff_t>(at));
  }

  void Erase(Input *input) {
    size_t start = Place(*input);
    size_t length = std::min(random_.LogBetween(1, 256), input->size() - start);
    input->erase(input->begin() + static_cast<ptrdiff_t>(start),
                 input->begin() + static_cast<ptrdiff_t>(start + length));
  }

  void ChangeByte(Input *input) {
    if (input->empty()) return;
    uint8_t &byte = (*input)[random_.Below(input->size())];
    switch (random_.Below(4)) {
      case 0:
        byte = static_cast<uint8_t>(byte ^ 1u << random_.Below(8));
        break;
      case 1:
        byte = kBytes[random_.Below(sizeof kBytes)];
        break;
      case 2:
        byte = static_cast<uint8_t>(byte + random_.Between(0, 16) - 8);
        break;
      default:
        byte = static_cast<uint8_t>(random_.Next());
        break;
    }
  }

  void Change(Input *input) {
    switch (random_.Below(10)) {
      case 0:
        Insert(input, words_[random_.Below(words_.size())]);
        break;
      case 1:
        Overwrite(input, words_[random_.Below(words_.size())]);
        break;
      case 2:
        Insert(input, Piece(corpus_[random_.Below(corpus_.size())]));
        break;
      case 3:
        Overwrite(input, Piece(corpus_[random_.Below(corpus_.size())]));
        break;
      case 4:
        Insert(input, Piece(*input));
        break;
      case 5:
        Erase(input);
        break;
      case 6:
        if (random_.OneIn(4)) input->resize(Place(*input));
        break;
      default:
        ChangeByte(input);
        break;
    }
  }

  const std::vector<Input> &corpus_;
  std::vector<Input> words_;
  TestRandom random_;
};

// ---- The command line.

struct Arguments {
  const Target *target = nullptr;
  size_t mutations = 0;
  unsigned long seconds = 0;
  std::vector<fs::path> paths;
};

const char *ValueOf(const char *argument, const char *flag) {
  size_t length = strlen(flag);
  return strncmp(argument, flag, length) == 0 ? argument + length : nullptr;
}

Arguments Read(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i++) {
    if (const char *name = ValueOf(argv[i], "--target=")) {
      for (const Target &target : kTargets) {
        if (strcmp(target.name, name) == 0) arguments.target = &target;
      }
    } else if (const char *count = ValueOf(argv[i], "--mutations=")) {
      arguments.mutations = hk_test::Scaled(strtoul(count, nullptr, 10));
    } else if (const char *seconds = ValueOf(argv[i], "--seconds=")) {
      arguments.seconds = strtoul(seconds, nullptr, 10);
    } else {
      arguments.paths.emplace_back(argv[i]);
    }
  }
  if (arguments.target == nullptr) {
    fprintf(stderr, "--target=NAME is missing, or is none of");
    for (const Target &target : kTargets) fprintf(stderr, " %s", target.name);
    fputs("\n", stderr);
    exit(2);
  }
  if (arguments.paths.empty()) arguments.paths.push_back(fs::path(FUZZ_CORPUS_FOLDER) / arguments.target->name);
  return arguments;
}

size_t RunMutations(const Arguments &arguments, const std::vector<Input> &corpus) {
  using Clock = std::chrono::steady_clock;
  Mutator mutator(corpus, hk_test::SeedFor(arguments.target->name));
  auto end = Clock::now() + std::chrono::seconds(arguments.seconds);
  size_t executions = 0;
  for (; executions < arguments.mutations; executions++) RunOne(*arguments.target, mutator.Next());
  for (; arguments.seconds > 0 && Clock::now() < end; executions++) RunOne(*arguments.target, mutator.Next());
  return executions;
}

}  // namespace

int main(int argc, char **argv) {
  Arguments arguments = Read(argc, argv);
  std::vector<Input> corpus;
  for (const fs::path &path : arguments.paths) Load(path, &corpus);
  if (corpus.empty()) {
    fputs("the corpus is empty\n", stderr);
    return 2;
  }
  KeepWhatFails(arguments.target->name);
  RunOne(*arguments.target, {});
  for (const Input &input : corpus) RunOne(*arguments.target, input);
  size_t mutations = RunMutations(arguments, corpus);
  printf("%s: %zu inputs, %zu executions\n", arguments.target->name, corpus.size(), corpus.size() + 1 + mutations);
  return 0;
}
