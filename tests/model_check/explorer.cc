#include "model_check/explorer.h"

#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "model_check/by_address.h"
#include "model_check/machine.h"
#include "model_check/order_model.h"

namespace model_check {

Running now;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr unsigned kRunners = kThreadsMax + 2;
constexpr unsigned kFinishRunner = kThreadsMax, kSetupRunner = kThreadsMax + 1;

// ---- Coroutines. A switch is _setjmp and _longjmp, which make no system call.

struct Runner {
  ucontext_t context;
  jmp_buf resume;
  jmp_buf base;  // where its loop waits for a body; an abandoned execution's frames are dropped
  bool is_made = false;
  void (*body)() = nullptr;
  bool has_ended = true;
  std::vector<char> thread_locals;
};

Runner runners[kRunners];
char *stacks;
jmp_buf scheduler;

// The program's own thread-local variables. Each coroutine has its own values.
char *locals_start;
size_t locals_bytes;
std::vector<char> locals_at_start;

int FindThreadLocals(dl_phdr_info *info, size_t, void *) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    locals_start = static_cast<char *>(info->dlpi_tls_data);
    locals_bytes = info->dlpi_phdr[i].p_memsz;
  }
  return 1;  // the program comes first, and no other module is needed
}

void PrepareOnce() {
  if (stacks != nullptr) return;
  void *mapped =
      mmap(nullptr, kRunners * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) abort();
  stacks = static_cast<char *>(mapped);
  dl_iterate_phdr(FindThreadLocals, nullptr);
  now.stacks = reinterpret_cast<uintptr_t>(stacks);
  now.stacks_bytes = kRunners * kStackBytes;
  now.locals = reinterpret_cast<uintptr_t>(locals_start);
  now.locals_bytes = locals_bytes;
  locals_at_start.assign(locals_start, locals_start + locals_bytes);
}

[[noreturn]] void SwitchToScheduler() { _longjmp(scheduler, 1); }

void RunnerLoop(unsigned index) {
  Runner &runner = runners[index];
  (void)_setjmp(runner.base);
  runner.body();
  runner.has_ended = true;
  SwitchToScheduler();
}

// Gives a runner a body, which starts at the next Resume.
void Assign(unsigned index, void (*body)()) {
  Runner &runner = runners[index];
  runner.body = body;
  runner.has_ended = false;
  runner.thread_locals = locals_at_start;
  if (runner.is_made) memcpy(runner.resume, runner.base, sizeof(jmp_buf));
}

// Runs a runner until it waits or ends.
void Resume(unsigned index) {
  Runner &runner = runners[index];
  now.runner = index;
  memcpy(locals_start, runner.thread_locals.data(), locals_bytes);
  if (_setjmp(scheduler) == 0) {
    if (runner.is_made) _longjmp(runner.resume, 1);
    runner.is_made = true;
    getcontext(&runner.context);
    runner.context.uc_stack.ss_sp = stacks + index * kStackBytes;
    runner.context.uc_stack.ss_size = kStackBytes;
    runner.context.uc_link = nullptr;
    makecontext(&runner.context, reinterpret_cast<void (*)()>(RunnerLoop), 1, index);
    setcontext(&runner.context);
  }
  memcpy(runners[now.runner].thread_locals.data(), locals_start, locals_bytes);
}

void Wait() {
  if (_setjmp(runners[now.runner].resume) == 0) SwitchToScheduler();
}

// ---- Choices.

struct Node {
  unsigned count;
  unsigned taken;
  uint8_t candidates[kThreadsMax];  // of a choice between threads
};

std::vector<Node> path;
size_t depth;

Node &NextNode(unsigned count) {
  if (depth == path.size()) path.push_back(Node{count, 0, {}});
  Node &node = path[depth++];
  if (node.count != count) {
    fprintf(stderr, "the checker is broken: an execution does not repeat itself\n");
    abort();
  }
  return node;
}

bool NextPath() {
  while (!path.empty() && path.back().taken + 1 == path.back().count) path.pop_back();
  if (path.empty()) return false;
  path.back().taken++;
  return true;
}

// ---- One execution.

struct Operation {
  uintptr_t where;
  bool writes;
  const bool *blocked;
};

struct Use {
  unsigned thread;
  bool is_used;
  bool others;
  bool written;
  void Clear() { *this = Use{}; }
};

unsigned thread_count;
Operation pending[kThreadsMax];
unsigned asleep;  // mask of threads: their pending operation was tried first, and no later one depends on it
struct Shared {
  bool is_shared;
  void Clear() { is_shared = false; }
};
ByAddress<Shared> shared;  // of the scenario
size_t shared_count;
ByAddress<Use> uses;
bool found_shared;
std::string violation;
unsigned preemptions, preemptions_max;  // switches from threads that could go on, and their bound; 0: none
size_t visible_count;
Effort effort;
Result result;

struct Event {
  unsigned thread;
  const char *what;
  uintptr_t where;
  uint64_t value;
  const void *code;
};
std::vector<Event> trace;
std::unordered_map<uintptr_t, std::string> names;

bool DependOnEachOther(const Operation &one, const Operation &other) {
  return one.where == other.where && (one.writes || other.writes);
}

unsigned EnabledMask() {
  unsigned mask = 0;
  for (unsigned i = 0; i < thread_count; i++) {
    if (!runners[i].has_ended && (pending[i].blocked == nullptr || !*pending[i].blocked)) mask |= 1u << i;
  }
  return mask;
}

// Returns the thread whose pending operation comes next, and updates `asleep`. It tries the last thread first, so that
// the first execution runs the threads one after the other.
unsigned ChooseThread(unsigned enabled, unsigned last) {
  unsigned order[kThreadsMax], count = 0;
  unsigned candidates = enabled & ~asleep;
  bool goes_on = (enabled >> last & 1) != 0;
  if (preemptions_max != 0 && preemptions == preemptions_max && goes_on) candidates = 1u << last;
  if ((candidates >> last & 1) != 0) order[count++] = last;
  for (unsigned i = 0; i < thread_count; i++) {
    if ((candidates >> i & 1) != 0 && i != last) order[count++] = i;
  }
  unsigned taken = Choose(count);
  unsigned thread = order[taken];
  if (goes_on && thread != last) preemptions++;
  /* With a bound there are no sleep sets: they could leave out an order that the bound leaves out elsewhere. */
  if (preemptions_max != 0 || effort.every_order) return thread;
  unsigned tried = asleep;
  for (unsigned i = 0; i < taken; i++) tried |= 1u << order[i];
  asleep = 0;
  for (unsigned i = 0; i < thread_count; i++) {
    if ((tried >> i & 1) != 0 && !DependOnEachOther(pending[i], pending[thread])) asleep |= 1u << i;
  }
  return thread;
}

bool IsOver() { return !violation.empty() || found_shared; }

enum class End { kComplete, kPruned, kAgain };

End RunThreads(const scenario_t &scenario) {
  now.phase = Phase::kThreads;
  asleep = 0;
  for (unsigned i = 0; i < thread_count; i++) Assign(i, scenario.thread[i]);
  for (unsigned i = 0; i < thread_count && !IsOver(); i++) Resume(i);  // up to its first visible operation
  for (unsigned last = 0; !IsOver();) {
    unsigned enabled = EnabledMask();
    if (enabled == 0) break;
    if ((enabled & ~asleep) == 0) return End::kPruned;
    last = ChooseThread(enabled, last);
    visible_count++;
    Resume(last);
  }
  if (found_shared) return End::kAgain;
  for (unsigned i = 0; i < thread_count && violation.empty(); i++) {
    if (!runners[i].has_ended) violation = "deadlock: no thread can go on, and not all have ended";
  }
  return End::kComplete;
}

void RunAlone(unsigned runner, Phase its_phase, void (*body)()) {
  if (body == nullptr) return;
  now.phase = its_phase;
  Assign(runner, body);
  Resume(runner);
}

End RunOnce(const scenario_t &scenario) {
  depth = 0;
  now.steps = 0;
  visible_count = 0;
  preemptions = 0;
  trace.clear();
  uses.ForgetAll();
  found_shared = false;
  BeginExecution();
  End end = RunThreads(scenario);
  if (end == End::kComplete && violation.empty()) RunAlone(kFinishRunner, Phase::kFinish, scenario.finish);
  now.phase = Phase::kOff;
  if (violation.empty()) RollBack();
  return end;
}

std::string NameOf(uintptr_t address) {
  auto found = names.find(address);
  if (found != names.end()) return found->second;
  char text[32];
  snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(address));
  return text;
}

void PrintTrace() {
  size_t first = trace.size() > 200 ? trace.size() - 200 : 0;
  for (size_t i = first; i < trace.size(); i++) {
    const Event &event = trace[i];
    fprintf(stderr, "  thread %u: %-24s %-24s 0x%-14zx at %p\n", event.thread, event.what, NameOf(event.where).c_str(),
            static_cast<size_t>(event.value), event.code);
  }
}

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3u + (value >> 29); }

void NoteBehaviour() {
  uint64_t hashes[kThreadsMax];
  for (uint64_t &hash : hashes) hash = 0xcbf29ce484222325u;
  for (const Event &event : trace) {
    uint64_t &hash = hashes[event.thread];
    for (const char *at = event.what; *at != '\0'; at++) hash = Mix(hash, static_cast<unsigned char>(*at));
    hash = Mix(Mix(hash, event.where), event.value);
  }
  uint64_t all = 0;
  for (uint64_t hash : hashes) all = Mix(all, hash);
  effort.behaviours->insert(all);
}

void Search(const scenario_t &scenario) {
  for (bool more = true; more && violation.empty();) {
    End end = RunOnce(scenario);
    if (end == End::kAgain) {
      path.clear();
      result.executions = result.pruned = result.outcomes = result.longest = 0;
      if (effort.behaviours != nullptr) effort.behaviours->clear();
      continue;
    }
    (end == End::kComplete ? result.executions : result.pruned)++;
    if (visible_count > result.longest) result.longest = visible_count;
    if (end == End::kComplete && effort.behaviours != nullptr) NoteBehaviour();
    if (result.executions + result.pruned > effort.executions_max) violation = "not everything could be looked at";
    more = NextPath();
  }
}

}  // namespace

Result Explore(const scenario_t &scenario, const Effort &its_effort) {
  PrepareOnce();
  effort = its_effort;
  result = Result{};
  violation.clear();
  path.clear();
  shared.ForgetAll();
  shared_count = 0;
  names.clear();
  now.steps = 0;
  preemptions_max = scenario.preemptions;
  thread_count = 0;
  while (thread_count < kThreadsMax && scenario.thread[thread_count] != nullptr) thread_count++;
  BeginScenario();
  RunAlone(kSetupRunner, Phase::kSetup, scenario.setup);
  EndSetup();
  if (violation.empty()) Search(scenario);
  if (!violation.empty() && scenario.violation == nullptr) PrintTrace();
  now.phase = Phase::kOff;
  EndScenario();
  memcpy(locals_start, locals_at_start.data(), locals_bytes);
  result.violation = violation;
  result.shared = shared_count;
  return result;
}

unsigned Choose(unsigned count) { return count == 1 ? 0 : NextNode(count).taken; }

void Arrive(uintptr_t where, bool writes, const bool *blocked) {
  if (!shared[where].is_shared) {
    Use &use = uses[where];
    if (!use.is_used) use = Use{now.runner, true, false, false};
    use.others |= use.thread != now.runner;
    use.written |= writes;
    bool must_wait = blocked != nullptr && *blocked;
    if (!must_wait && !(use.others && use.written)) return;
    shared[where].is_shared = true;
    shared_count++;
    found_shared = true;
    SwitchToScheduler();
  }
  pending[now.runner] = Operation{where, writes, blocked};
  Wait();
}

void Fail(const std::string &what) {
  violation = what;
  SwitchToScheduler();
}

void Record(const char *what, uintptr_t where, uint64_t value, const void *code) {
  trace.push_back(Event{now.runner, what, where, value, code});
}

}  // namespace model_check

void checker_fail(const char *sentence) { model_check::Fail(sentence); }
void checker_outcome(unsigned number) { model_check::result.outcomes |= uint64_t{1} << number; }
void checker_name(const void *address, const char *name) {
  model_check::names[reinterpret_cast<uintptr_t>(address)] = name;
}
