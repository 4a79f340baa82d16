// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/lock.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr auto kBeatEvery = std::chrono::seconds(10);
constexpr std::int64_t kDeadAfter = 120;  // seconds without a beat, of a process elsewhere
constexpr int kAttempts = 20;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

// When the process began, which tells it from a later one of the same number; empty: not there.
std::string start_of(long pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;  // the 22nd field of all
  return field;
}

struct Holder {
  std::string host;
  std::string boot;
  long pid = 0;
  std::string start;

  static Holder self() { return {host_name(), boot_id(), getpid(), start_of(getpid())}; }
  static Holder read(const fs::path& file) {
    Holder holder;
    std::istringstream in(first_line(file));
    in >> holder.host >> holder.boot >> holder.pid >> holder.start;
    return holder;
  }
  std::string line() const {
    return host + " " + boot + " " + std::to_string(pid) + " " + start + "\n";
  }
  std::string words() const {
    return pid == 0 ? std::string("an unknown process")
                    : "process " + std::to_string(pid) + " on " + escape(host);
  }
};

void put_line(int fd, const std::string& line) {
  if (ftruncate(fd, 0) != 0 || pwrite(fd, line.data(), line.size(), 0) < 0) return;  // for people
}

// The filesystem's clock may be another machine's: the time of a file made there now counts.
std::int64_t age_of(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return 0;
  const std::string probe = file.string() + "-now." + host_name() + "." + std::to_string(getpid());
  const Descriptor fd(open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  struct stat now {};
  const bool known = fd.open() && fstat(fd.get(), &now) == 0;
  unlink(probe.c_str());
  return known ? now.st_mtime - status.st_mtime : 0;
}

bool is_dead(const Holder& holder, const fs::path& file) {
  if (holder.pid == 0) return age_of(file) > kDeadAfter;  // being written, or damaged
  if (holder.host != host_name()) return age_of(file) > kDeadAfter;
  if (holder.boot != boot_id()) return true;
  const bool exists = kill(static_cast<pid_t>(holder.pid), 0) == 0 || errno == EPERM;
  return !exists || start_of(holder.pid) != holder.start;
}

bool same_file(int fd, const fs::path& file) {
  struct stat mine {};
  struct stat there {};
  return fstat(fd, &mine) == 0 && stat(file.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

}  // namespace

DestinationLock::DestinationLock(DestinationLock&& other) noexcept
    : file_(std::move(other.file_)),
      fd_(std::move(other.fd_)),
      held_(std::exchange(other.held_, false)),
      taken_from_(std::move(other.taken_from_)),
      last_beat_(other.last_beat_) {}

DestinationLock& DestinationLock::operator=(DestinationLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  file_ = std::move(other.file_);
  fd_ = std::move(other.fd_);
  held_ = std::exchange(other.held_, false);
  taken_from_ = std::move(other.taken_from_);
  last_beat_ = other.last_beat_;
  return *this;
}

DestinationLock::~DestinationLock() { release(); }

void DestinationLock::release() noexcept {
  if (!held_) return;
  held_ = false;
  unlink(file_.c_str());  // before the descriptor: who waits for it looks whether it is still there
  fd_.reset();
}

void DestinationLock::beat() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (!held_ || now - last_beat_ < kBeatEvery) return;
  last_beat_ = now;
  utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
}

std::optional<DestinationLock> DestinationLock::try_take(const fs::path& file,
                                                         std::string* holder) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    DestinationLock lock;
    lock.file_ = file;
    lock.fd_ = Descriptor(open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool made = lock.fd_.open();
    if (!made && errno == EEXIST) {
      lock.fd_ = Descriptor(open(file.c_str(), O_RDWR | O_CLOEXEC));
      if (!lock.fd_.open() && errno == ENOENT) continue;
    }
    if (!lock.fd_.open()) throw system_error(errno, file.string(), "cannot open the lock");
    if (flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EWOULDBLOCK) {
        if (holder != nullptr) *holder = Holder::read(file).words();
        return std::nullopt;
      }
      // ENOSYS, ENOLCK, EOPNOTSUPP: no such locks here.
      if (made) unlink(file.c_str());
      return take_by_existence(file, holder);
    }
    if (!same_file(lock.fd_.get(), file)) continue;  // it was given back in between
    if (!made) {
      const Holder before = Holder::read(file);
      // A process that has opened the file a moment ago has written nothing yet.
      if (before.pid != 0) lock.taken_from_ = before.words();
    }
    put_line(lock.fd_.get(), Holder::self().line());
    lock.held_ = true;
    return lock;
  }
  if (holder != nullptr) *holder = "another process";
  return std::nullopt;
}

std::optional<DestinationLock> DestinationLock::take_by_existence(const fs::path& file,
                                                                  std::string* holder) {
  const Holder self = Holder::self();
  const fs::path mine = file.string() + "-" + self.host + "." + std::to_string(self.pid);
  DestinationLock lock;
  lock.file_ = file;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    {
      const Descriptor fd(open(mine.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!fd.open()) throw system_error(errno, mine.string(), "cannot open the lock");
      put_line(fd.get(), self.line());
    }
    // Whole with its content, or not at all.
    const bool linked = link(mine.c_str(), file.c_str()) == 0;
    const int error = errno;
    unlink(mine.c_str());
    if (linked) {
      lock.held_ = true;
      return lock;
    }
    if (error != EEXIST) throw system_error(error, file.string(), "cannot make the lock");
    const Holder other = Holder::read(file);
    if (!is_dead(other, file)) {
      if (holder != nullptr) *holder = other.words();
      return std::nullopt;
    }
    // Only one of several that see it dead moves it away; what it then has must be the dead one's.
    if (std::rename(file.c_str(), mine.c_str()) != 0) continue;
    if (Holder::read(mine).line() != other.line()) {
      (void)link(mine.c_str(), file.c_str());
      unlink(mine.c_str());
      continue;
    }
    unlink(mine.c_str());
    lock.taken_from_ = other.words();
  }
  if (holder != nullptr) *holder = "another process";
  return std::nullopt;
}

}  // namespace shardmill::internal
