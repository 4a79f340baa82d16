// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/task_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/cpus.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "converters/internal/wire.h"

namespace shardmill::internal {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kMaxJobs = 256;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr auto kHeartbeat = std::chrono::milliseconds(50);
constexpr auto kPatience = std::chrono::seconds(20);  // for a child to reach its next sample

}  // namespace

/// Shared between all processes of a pool.
struct PoolState {
  struct alignas(64) Job {
    std::atomic<std::uint64_t> samples{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> task{kNone};
  };
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> first_failed{kNone};
  std::atomic<std::uint64_t> finished{0};
  std::atomic<bool> stop{false};
  std::array<Job, kMaxJobs> jobs;

  void fail(std::uint64_t task) noexcept {
    std::uint64_t seen = first_failed.load();
    while (task < seen && !first_failed.compare_exchange_weak(seen, task)) {
    }
  }
};

void TaskContext::begin(std::size_t task) noexcept {
  task_ = task;
  state_->jobs[job_].task.store(task);
}

void TaskContext::count_error() noexcept {
  state_->jobs[job_].errors.fetch_add(1, std::memory_order_relaxed);
}

void TaskContext::advance(std::uint64_t samples, std::uint64_t bytes) {
  PoolState::Job& job = state_->jobs[job_];
  job.samples.fetch_add(samples, std::memory_order_relaxed);
  job.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (heartbeat_) heartbeat_();
  if (state_->stop.load(std::memory_order_relaxed) ||
      task_ > state_->first_failed.load(std::memory_order_relaxed)) {
    throw Abandoned{};
  }
}

namespace {

struct Unmap {
  void operator()(PoolState* state) const noexcept {
    state->~PoolState();
    munmap(state, sizeof *state);
  }
};
using SharedState = std::unique_ptr<PoolState, Unmap>;

SharedState make_state() {
  void* memory =
      mmap(nullptr, sizeof(PoolState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw system_error(errno, {}, "cannot map shared memory");
  return SharedState(new (memory) PoolState);
}

void report(const PoolOptions& options, const PoolState& state, const Observer& observer) {
  if (!observer.progress) return;
  Progress progress{options.phase, 0, options.total_samples, 0, options.total_bytes};
  for (const PoolState::Job& job : state.jobs) {
    progress.samples += job.samples.load(std::memory_order_relaxed);
    progress.bytes += job.bytes.load(std::memory_order_relaxed);
    progress.errors += job.errors.load(std::memory_order_relaxed);
  }
  progress.shards = state.finished;
  progress.total_shards = options.tasks;
  observer.progress(progress);
}

struct Outcome {
  std::optional<std::string> result;
  std::optional<ErrorInfo> error;
};

// Runs one task and turns whatever it throws into a value; neither if it was abandoned.
Outcome attempt(const Task& task, std::size_t number, TaskContext& context, PoolState& state) {
  Outcome outcome;
  context.begin(number);
  try {
    outcome.result = task(number, context);
    return outcome;
  } catch (const Abandoned&) {
    return outcome;
  } catch (const Error& error) {
    outcome.error = error.info();
  } catch (const std::bad_alloc&) {
    outcome.error =
        ErrorInfo{ErrorCode::kResourceExhausted, {}, {}, "out of memory", "use fewer --jobs"};
  } catch (const std::exception& error) {
    outcome.error = ErrorInfo{ErrorCode::kInternal, {}, {}, error.what(), {}};
  }
  state.fail(number);
  return outcome;
}

void send(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = write(fd, bytes.data(), bytes.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) _exit(1);  // the parent is gone
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// A frame: its length without this number; task; 1 and the result, or 0 and the error.
std::string frame(std::size_t task, const Outcome& outcome) {
  WireWriter body;
  body.number(task).number(outcome.result ? 1 : 0);
  outcome.result ? body.text(*outcome.result) : body.error(*outcome.error);
  return WireWriter().text(body.take()).take();
}

[[noreturn]] void run_child(const PoolOptions& options, const std::function<Task()>& make_task,
                            PoolState& state, std::size_t job, int fd, pid_t parent) {
  // The parent decides about signals from the terminal; a child must not outlive it.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  TaskContext context(state, job, {});
  Task task;
  while (!state.stop) {
    const std::uint64_t number = state.next.fetch_add(1);
    if (number >= options.tasks || number > state.first_failed) break;
    const Outcome outcome = attempt(
        [&](std::size_t n, TaskContext& c) {
          if (!task) task = make_task();
          return task(n, c);
        },
        number, context, state);
    if (outcome.result || outcome.error) send(fd, frame(number, outcome));
    state.jobs[job].task = kNone;
  }
  _exit(0);
}

// The forked processes and what they have sent.
class Children {
 public:
  Children(const PoolOptions& options, PoolState& state) : options_(options), state_(state) {}
  ~Children() { end(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start(std::size_t jobs, const std::function<Task()>& make_task) {
    for (std::size_t job = 0; job < jobs; ++job) {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error(errno, {}, "cannot make a pipe");
      const pid_t parent = getpid();
      const pid_t pid = fork();
      if (pid == 0) {
        close(ends[0]);
        run_child(options_, make_task, state_, job, ends[1], parent);
      }
      const int error = errno;
      close(ends[1]);
      if (pid < 0) {
        close(ends[0]);
        throw system_error(error, {}, "cannot start a job process", "use fewer --jobs");
      }
      children_.push_back({pid, ends[0], job, {}});
    }
  }

  // Waits up to one heartbeat for news. Returns false when all children have ended.
  bool wait(std::vector<Outcome>& outcomes) {
    std::vector<pollfd> polls;
    for (const Child& child : children_) {
      if (child.fd >= 0) polls.push_back({child.fd, POLLIN, 0});
    }
    if (polls.empty()) return false;
    if (poll(polls.data(), polls.size(), static_cast<int>(kHeartbeat.count())) <= 0) return true;
    for (const pollfd& ready : polls) {
      if (ready.revents == 0) continue;
      const auto child = std::find_if(children_.begin(), children_.end(),
                                      [&](const Child& c) { return c.fd == ready.fd; });
      receive(*child, outcomes);
    }
    return true;
  }

 private:
  struct Child {
    pid_t pid;
    int fd;
    std::size_t job;
    std::string buffer;
  };

  void receive(Child& child, std::vector<Outcome>& outcomes) {
    std::array<char, 1 << 16> piece;
    const ssize_t got = read(child.fd, piece.data(), piece.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return ended(child, outcomes);
    child.buffer.append(piece.data(), static_cast<std::size_t>(got));
    std::uint64_t length = 0;
    while (child.buffer.size() >= sizeof length) {
      std::memcpy(&length, child.buffer.data(), sizeof length);
      if (child.buffer.size() - sizeof length < length) return;
      WireReader body(std::string_view(child.buffer).substr(sizeof length, length));
      const std::uint64_t task = body.number();
      Outcome& outcome = outcomes[task];
      if (body.number() == 1) {
        outcome.result = body.text();
        ++state_.finished;
        if (options_.succeeded) options_.succeeded(task, *outcome.result);
      } else {
        outcome.error = body.error();
      }
      child.buffer.erase(0, sizeof length + length);
    }
  }

  // The child closed its pipe: fine, unless it was in the middle of a task.
  void ended(Child& child, std::vector<Outcome>& outcomes) {
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child.fd);
    child.fd = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::uint64_t task =
        std::min<std::uint64_t>(state_.jobs[child.job].task, options_.tasks - 1);
    const std::string how =
        WIFSIGNALED(status)
            ? std::string("was killed by signal ") + std::to_string(WTERMSIG(status))
            : "ended with status " + std::to_string(WEXITSTATUS(status));
    outcomes[task].error =
        ErrorInfo{ErrorCode::kInternal,
                  {},
                  "task " + std::to_string(task),
                  "a job process " + how,
                  "look for the kernel's out-of-memory killer (dmesg), or use fewer --jobs"};
    state_.fail(task);
  }

  // Ends what still runs (after an exception): politely, then not.
  void end() noexcept {
    state_.stop = true;
    const auto deadline = Clock::now() + kPatience;
    for (Child& child : children_) {
      if (child.fd < 0) continue;
      // Nobody reads the pipe any more: a child that sends gets EPIPE and exits.
      close(child.fd);
      while (waitpid(child.pid, nullptr, WNOHANG) == 0) {
        if (Clock::now() > deadline) kill(child.pid, SIGKILL);
        poll(nullptr, 0, 2);
      }
    }
  }

  const PoolOptions& options_;
  PoolState& state_;
  std::vector<Child> children_;
};

void run_forked(const PoolOptions& options, std::size_t jobs,
                const std::function<Task()>& make_task, PoolState& state,
                std::vector<Outcome>& outcomes, const Observer& observer) {
  Children children(options, state);
  children.start(jobs, make_task);
  while (children.wait(outcomes)) {
    report(options, state, observer);
    if (observer.stop.stop_requested()) state.stop = true;
  }
}

void run_here(const PoolOptions& options, const std::function<Task()>& make_task, PoolState& state,
              std::vector<Outcome>& outcomes, const Observer& observer) {
  auto last = Clock::now();
  TaskContext context(state, 0, [&] {
    const auto now = Clock::now();
    if (now - last < kHeartbeat) return;
    last = now;
    report(options, state, observer);
    if (observer.stop.stop_requested()) state.stop = true;
  });
  if (options.tasks == 0) return;
  const Task task = make_task();
  for (std::size_t number = 0; number < options.tasks; ++number) {
    if (observer.stop.stop_requested()) state.stop = true;
    if (state.stop || state.first_failed != kNone) return;
    outcomes[number] = attempt(task, number, context, state);
    if (!outcomes[number].result) continue;
    ++state.finished;
    if (options.succeeded) options.succeeded(number, *outcomes[number].result);
  }
}

}  // namespace

int job_count(int jobs, std::size_t tasks) noexcept {
  if (jobs <= 0) jobs = usable_cpus();
  const std::size_t most = std::clamp<std::size_t>(tasks, 1, kMaxJobs);
  return static_cast<int>(std::min(static_cast<std::size_t>(jobs), most));
}

std::vector<std::string> run_tasks(const PoolOptions& options,
                                   const std::function<Task()>& make_task,
                                   const Observer& observer) {
  const SharedState state = make_state();
  std::vector<Outcome> outcomes(options.tasks);
  const int jobs = job_count(options.jobs, options.tasks);
  report(options, *state, observer);
  if (jobs > 1) {
    run_forked(options, static_cast<std::size_t>(jobs), make_task, *state, outcomes, observer);
  } else {
    run_here(options, make_task, *state, outcomes, observer);
  }
  for (const Outcome& outcome : outcomes) {
    if (outcome.error) throw Error(*outcome.error);
  }
  if (observer.stop.stop_requested()) throw Interrupted();
  report(options, *state, observer);
  std::vector<std::string> results;
  results.reserve(outcomes.size());
  for (std::size_t task = 0; task < outcomes.size(); ++task) {
    if (!outcomes[task].result) {
      throw Error(ErrorCode::kInternal, {}, "task " + std::to_string(task), "was not finished");
    }
    results.push_back(std::move(*outcomes[task].result));
  }
  return results;
}

}  // namespace shardmill::internal
