// SPDX-License-Identifier: Apache-2.0
#include "loader/system/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace shardmill::internal {

void clean_child() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) std::signal(number, SIG_DFL);
  }
  constexpr std::array kIgnored = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
  for (const int number : kIgnored) std::signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // What the parent had buffered is the parent's to write.
  __fpurge(stdout);
  __fpurge(stderr);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    close(null);
  }
  // A pool of OpenMP threads does not survive fork; its first use would wait for it for ever.
  use_one_openmp_thread();
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

void use_one_openmp_thread() noexcept {
  if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(symbol)(1);
  }
}

void die_with_parent(pid_t parent) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

void prefer_long_turns() noexcept {
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

void raise_oom_score() noexcept {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  constexpr std::string_view kScore =
      "500";  // half of the scale: before the trainer, not first of all
  [[maybe_unused]] const ssize_t written = write(fd, kScore.data(), kScore.size());
  close(fd);
}

}  // namespace shardmill::internal
