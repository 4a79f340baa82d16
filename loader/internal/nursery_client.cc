// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/nursery_client.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "loader/internal/nursery.h"
#include "loader/internal/warn.h"
#include "loader/system/futex.h"

namespace shardmill::internal {

namespace {

constexpr long kLookMs = 500;              // between two looks at the scout's progress
constexpr int kLooksWithoutProgress = 40;  // 20 s

// A measure of what a process has done, and whether it is asleep: locked up, if it never moves.
struct Progress {
  std::uint64_t cpu_ticks = 0;
  char state = '?';
  bool operator==(const Progress&) const = default;
};

Progress progress_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  Progress progress;
  std::string skipped;
  fields >> progress.state;
  for (int i = 0; i < 10; ++i) fields >> skipped;  // ppid … cmajflt
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> user >> system;
  progress.cpu_ticks = user + system;
  return progress;
}

}  // namespace

NurseryClient::NurseryClient(Shared& shared) : shared_(shared), owner_(getpid()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw system_error(errno, {}, "cannot make a socket pair");
  }
  nursery_ = fork();
  if (nursery_ == 0) {
    close(ends[0]);
    run_nursery(shared_, ends[1], owner_);
  }
  const int error = errno;
  close(ends[1]);
  socket_ = ends[0];
  if (nursery_ < 0) {
    close(socket_);
    throw system_error(error, {}, "cannot fork", "use num_workers = 0, or raise ulimit -u");
  }
  try {
    wait_for_scout();
  } catch (...) {
    shut_down();
    throw;
  }
}

NurseryClient::~NurseryClient() { shut_down(); }

void NurseryClient::shut_down() noexcept {
  if (getpid() != owner_ || socket_ < 0) return;
  shared_.control->stop.store(1);
  futex_bump(shared_.control->work);
  close(socket_);
  socket_ = -1;
  // The nursery kills what is still running and ends; it was seen to need 1 ms.
  while (waitpid(nursery_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void NurseryClient::wait_for_scout() {
  const ControlView control = shared_.control;
  Progress last;
  int without_progress = 0;
  while (true) {
    const std::uint32_t seen = control->ready.load();
    const ScoutState state = control->scout.load();
    if (state == ScoutState::kFailed) throw Error(control->scout_error.load());
    if (state == ScoutState::kDone) break;
    futex_wait(control->ready, seen, kLookMs);
    check_alive();
    const Progress now = progress_of(control->scout_pid.load());
    without_progress =
        now == last && now.state != 'D' && now.state != 'T' ? without_progress + 1 : 0;
    last = now;
    if (without_progress < kLooksWithoutProgress) continue;
    throw Error(ErrorCode::kInternal, shared_.spec(), {},
                "opening the dataset in a child process has made no progress for 20 s: most likely "
                "another thread held a lock when the process was forked",
                "construct the loader before starting threads");
  }
  attach_index(shared_);
}

void NurseryClient::order_workers(int count) {
  announce_workers(shared_.stats(), count);
  shared_.control->wanted_workers.store(static_cast<std::uint32_t>(count));
  futex_bump(shared_.control->work);
  const char byte = 'w';
  while (send(socket_, &byte, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void NurseryClient::check_reports() {
  const ControlView control = shared_.control;
  for (const std::uint64_t deaths = control->deaths.load(); reported_ < deaths; ++reported_) {
    report(control->death_log[reported_ % kMaxDeaths]);
  }
  if (control->fatal.load() != 0) throw Error(control->fatal_error.load());
}

void NurseryClient::check_alive() {
  check_reports();
  char byte = 0;
  const ssize_t got = recv(socket_, &byte, 1, MSG_DONTWAIT);
  const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (!gone) return;
  throw Error(ErrorCode::kInternal, shared_.spec(), {},
              "the process that looks after the workers was killed",
              "look for an out-of-memory kill in the kernel's log");
}

void NurseryClient::report(const DeathRecord& death) {
  std::string text = "worker " + std::to_string(death.pid);
  if (WIFSIGNALED(death.wait_status)) {
    const int number = WTERMSIG(death.wait_status);
    text += " was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  } else {
    text += " ended with exit status " + std::to_string(WEXITSTATUS(death.wait_status));
  }
  if (death.had_sample != 0) text += " while working on sample " + std::to_string(death.sample);
  if (death.timed_out != 0) {
    text += " for longer than sample_timeout_ms";
  } else if (WIFSIGNALED(death.wait_status) && WTERMSIG(death.wait_status) == SIGKILL) {
    text += "; SIGKILL often means that memory ran out (it had used " +
            std::to_string(death.max_rss_kib / 1024) + " MiB)";
  }
  // Deaths over one sample count once, as it may be in work for two epochs; and not at all once it
  // is dealt with as a bad sample: they are not the workers' fault.
  if (death.had_sample == 0) {
    ++deaths_elsewhere_;
  } else if (death.blamed == 0) {
    deadly_.insert(death.sample);
  } else {
    deadly_.erase(death.sample);
  }
  const std::size_t charged = deadly_.size() + deaths_elsewhere_;
  const auto limit = static_cast<std::size_t>(shared_.options.max_worker_restarts);
  if (charged <= limit) {
    return warn(text + "; it is replaced and its unfinished samples are done again");
  }
  throw Error(ErrorCode::kInternal, shared_.spec(), {},
              text + "; " + std::to_string(charged) +
                  " workers died in this epoch, max_worker_restarts is " + std::to_string(limit),
              "find out what kills them, or raise max_worker_restarts");
}

}  // namespace shardmill::internal
