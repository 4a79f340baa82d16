// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/nursery.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "loader/internal/claims.h"
#include "loader/system/child.h"
#include "loader/system/futex.h"

namespace shardmill::internal {

namespace {

constexpr std::uint32_t kTicksToDie = 50;  // 5 s: longer after SIGKILL is uninterruptible I/O

// What the nursery knows about one worker.
struct Worker {
  pid_t pid = 0;
  std::uint32_t serial = 0;
  std::uint64_t claims = 0;  // at the last tick
  std::uint32_t ticks = 0;   // on the same claim
  std::uint32_t killed_ticks = 0;
  bool timed_out = false;
};

std::string death_words(int status) {
  if (!WIFSIGNALED(status)) {
    return "a worker ended with exit status " + std::to_string(WEXITSTATUS(status)) +
           " while working on this sample";
  }
  const int number = WTERMSIG(status);
  std::string words = "a worker was killed by signal " + std::to_string(number) + " (" +
                      strsignal(number) + ") while working on this sample";
  if (number == SIGBUS) words += ": a file shrank or could not be read while mapped";
  return words;
}

class Nursery {
 public:
  Nursery(Shared& shared, int socket, pid_t parent)
      : shared_(shared), control_(shared.control), socket_(socket), parent_(parent) {}

  [[noreturn]] void run() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    signals_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    start_scout();
    while (true) {
      std::array<pollfd, 2> events = {{{socket_, POLLIN, 0}, {signals_, POLLIN, 0}}};
      const int count = poll(events.data(), events.size(), kTickMs);
      if ((events[0].revents & (POLLIN | POLLHUP)) != 0 && !take_orders()) end();
      if (getppid() != parent_) end();
      signalfd_siginfo drained;
      while (read(signals_, &drained, sizeof drained) > 0) {
      }
      reap();
      if (count == 0) tick();
      fill();
    }
  }

 private:
  [[noreturn]] void end() {
    for (const Worker& worker : workers_) {
      if (worker.pid > 0) kill(worker.pid, SIGKILL);
    }
    if (scout_ > 0) kill(scout_, SIGKILL);
    while (wait(nullptr) > 0 || errno == EINTR) {
    }
    _exit(0);
  }

  // False once the trainer has closed its end.
  bool take_orders() {
    char byte = 0;
    const ssize_t got = recv(socket_, &byte, 1, MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void start_scout() {
    const pid_t self = getpid();
    scout_ = fork();
    if (scout_ == 0) {
      unblock_signals();
      run_scout(shared_, self);
    }
    if (scout_ < 0) {
      control_->scout_error.store(system_error(errno, {}, "cannot fork the first process").info());
      control_->scout.store(ScoutState::kFailed);
      futex_bump(control_->ready);
    }
    control_->scout_pid.store(scout_);
  }

  static void unblock_signals() {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
  }

  // Starts workers until there are as many as wanted.
  void fill() {
    const std::size_t wanted = control_->wanted_workers.load();
    if (wanted == 0 || control_->fatal.load() != 0) return;
    if (workers_.empty()) {  // what the scout wrote and the trainer decided, once for all workers
      attach_index(shared_);
      shared_.ring->open(control_->layout, control_->slots.load(), 0);
    }
    if (workers_.size() < wanted) workers_.resize(wanted);
    for (std::size_t row = 0; row < wanted; ++row) {
      if (workers_[row].pid == 0) start_worker(row);
    }
  }

  void start_worker(std::size_t row) {
    Worker& worker = workers_[row];
    worker = Worker{};
    worker.serial = next_serial_++;
    WorkerRow& shown = control_->rows[row];
    shown.serial.store(worker.serial);
    shown.claims.store(0);
    shown.busy.store(0);
    const pid_t self = getpid();
    worker.pid = fork();
    if (worker.pid == 0) {
      unblock_signals();
      close(socket_);
      run_worker(shared_, worker.serial, row, self);
    }
    if (worker.pid < 0) {
      worker.pid = 0;
      fail(system_error(errno, {}, "cannot fork a worker", "use fewer workers or raise ulimit -u")
               .info());
    }
    shown.pid.store(worker.pid);
  }

  void fail(const ErrorInfo& info) {
    if (control_->fatal.load() != 0) return;
    control_->fatal_error.store(info);
    control_->fatal.store(1);
    futex_bump(control_->ready);
  }

  void reap() {
    int status = 0;
    rusage usage{};
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;) {
      if (pid == scout_) {
        scout_ = 0;
        if (control_->scout.load() == ScoutState::kRunning) scout_died(status);
      }
      for (std::size_t row = 0; row < workers_.size(); ++row) {
        if (workers_[row].pid == pid) worker_died(row, status, usage);
      }
    }
  }

  void scout_died(int status) {
    control_->scout_error.store({ErrorCode::kDataLoss,
                                 shared_.spec(),
                                 {},
                                 "opening the dataset failed: " + death_words(status),
                                 "check the files with shardmill verify"});
    control_->scout.store(ScoutState::kFailed);
    futex_bump(control_->ready);
  }

  void worker_died(std::size_t row, int status, const rusage& usage) {
    Worker& worker = workers_[row];
    const auto describe = [&](const Claim& claim, std::uint64_t sample) {
      return bad_sample(claim, sample, worker, status);
    };
    const Recovered found = recover(control_, worker.serial, worker.timed_out, describe);
    shared_.stats().rows[row].pid.store(0);
    const bool left = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !found.sample;
    if (left) {  // there were more than wanted
      worker.pid = 0;
      return;
    }
    const std::uint64_t number = control_->deaths.load();
    DeathRecord& record = control_->death_log[number % kMaxDeaths];
    record = {worker.serial,
              worker.pid,
              status,
              worker.timed_out ? 1u : 0u,
              found.blamed ? 1u : 0u,
              found.sample ? 1u : 0u,
              found.sample.value_or(0),
              static_cast<std::uint64_t>(usage.ru_maxrss)};
    control_->deaths.store(number + 1);
    worker.pid = 0;
    wake_all(control_);
  }

  ErrorInfo bad_sample(const Claim& claim, std::uint64_t sample, const Worker& worker,
                       int status) const {
    std::uint64_t number = 0;
    const std::string path = shared_.corpus.shard_of(sample, number).path.string();
    const std::string_view key = shared_.ring->memory(claim.slot).key(claim.row);
    const std::string place =  // the worker may have died before it knew the key
        key.empty() ? "sample number " + std::to_string(number) : sample_place(key);
    if (worker.timed_out) {
      return {ErrorCode::kIo, path, place,
              "took longer than sample_timeout_ms = " +
                  std::to_string(shared_.options.sample_timeout_ms),
              "raise the timeout, or check the storage and this sample"};
    }
    return {ErrorCode::kDataLoss, path, place, death_words(status) + ", twice",
            "remove or repair the sample"};
  }

  // Time on a sample is counted in ticks, not on the clock: a stopped or debugged process group
  // is no hang.
  void tick() {
    for (std::size_t row = 0; row < workers_.size(); ++row) {
      Worker& worker = workers_[row];
      if (worker.pid == 0) continue;
      if (worker.killed_ticks > 0 && ++worker.killed_ticks > kTicksToDie) {
        fail({ErrorCode::kIo, shared_.spec(), "worker " + std::to_string(worker.pid),
              "does not end 5 s after SIGKILL: it hangs in the kernel, most likely in I/O",
              "check the storage"});
      }
      const WorkerRow& shown = control_->rows[row];
      const std::uint64_t claims = shown.claims.load();
      if (shown.busy.load() == 0 || claims != worker.claims) worker.ticks = 0;
      worker.claims = claims;
      const std::uint64_t allowed = control_->timeout_ticks;
      if (allowed == 0 || ++worker.ticks <= allowed || worker.timed_out) continue;
      worker.timed_out = true;
      worker.killed_ticks = 1;
      kill(worker.pid, SIGKILL);
    }
  }

  Shared& shared_;
  const ControlView control_;
  const int socket_;
  const pid_t parent_;
  int signals_ = -1;
  pid_t scout_ = 0;
  std::uint32_t next_serial_ = kFirstSerial;
  std::vector<Worker> workers_;
};

}  // namespace

void run_nursery(Shared& shared, int socket, pid_t parent) {
  clean_child();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Nursery(shared, socket, parent).run();
}

}  // namespace shardmill::internal
