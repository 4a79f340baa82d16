// SPDX-License-Identifier: Apache-2.0
#include "tools/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kBarEvery = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr std::size_t kBarWidth = 24;

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) {
  if (interrupted != 0) _exit(130);
  interrupted = 1;
}

std::string duration(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::max(0.0, seconds) + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// The state of an operation as text: counts, rates and what is left.
std::string describe(const Progress& progress, double seconds) {
  std::string text = human_count(progress.samples);
  if (progress.total_samples > 0) text += "/" + human_count(progress.total_samples);
  text += " samples";
  if (seconds < 0.2) return text;
  const double rate = static_cast<double>(progress.samples) / seconds;
  text += fmt::format(", {}/s, {:.1f} MB/s", human_count(static_cast<std::uint64_t>(rate)),
                      static_cast<double>(progress.bytes) / 1e6 / seconds);
  if (progress.total_samples > progress.samples && progress.samples > 0) {
    const auto left = static_cast<double>(progress.total_samples - progress.samples);
    text += ", ETA " + duration(left / rate);
  }
  if (progress.total_shards > 1) {
    text += fmt::format(", shards {}/{}", human_count(progress.shards),
                        human_count(progress.total_shards));
  }
  if (progress.errors > 0) text += ", errors " + human_count(progress.errors);
  return text;
}

std::string bar(const Progress& progress) {
  if (progress.total_samples == 0) return {};
  const double share = std::min(
      1.0, static_cast<double>(progress.samples) / static_cast<double>(progress.total_samples));
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  return fmt::format("[{}{}] {:3.0f}% ", std::string(filled, '='),
                     std::string(kBarWidth - filled, ' '), share * 100);
}

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Console::Console() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Console::write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  if (errno == EPIPE) throw OutputClosed{};
  throw system_error(errno, "stdout", "cannot write");
}

void Console::flush() {
  if (std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw OutputClosed{};
  throw system_error(errno, "stdout", "cannot write");
}

void Console::print(std::string_view line) {
  clear_bar();
  write_out(line);
  write_out("\n");
}

void Console::print_json(const Json& object) {
  clear_bar();
  write_out(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::note(std::string_view line) {
  if (quiet) return;
  clear_bar();
  fmt::print(stderr, "{}\n", line);
}

void Console::warn(std::string_view text) {
  clear_bar();
  fmt::print(stderr, "shardmill: warning: {}\n", text);
}

void Console::fail(const ErrorInfo& info, std::string_view code) {
  clear_bar();
  fmt::print(stderr, "shardmill: {}\n", Error(info).what());
  if (!json) return;
  print_json(Json{{"error",
                   {{"code", code},
                    {"path", escape(info.path)},
                    {"place", info.place},
                    {"cause", info.cause},
                    {"remedy", info.remedy}}}});
}

Observer Console::observer() {
  Observer observer;
  observer.stop = stop_.get_token();
  observer.warning = [this](const std::string& text) { warn(text); };
  observer.progress = [this](const Progress& progress) {
    if (interrupted != 0) stop_.request_stop();
    if (!quiet) show(progress);
  };
  return observer;
}

void Console::show(const Progress& progress) {
  const auto now = Clock::now();
  if (progress.phase != phase_) {
    phase_ = progress.phase;
    phase_begin_ = now;
    // Lines keep their pace over phases, however short these are.
    if (terminal_ || last_shown_ == Clock::time_point()) last_shown_ = now;
    return;  // quick operations show nothing
  }
  if (now - last_shown_ < (terminal_ ? Clock::duration(kBarEvery) : Clock::duration(kLineEvery))) {
    return;
  }
  last_shown_ = now;
  const double seconds = std::chrono::duration<double>(now - phase_begin_).count();
  std::string line = phase_ + ": " + (terminal_ ? bar(progress) : "") + describe(progress, seconds);
  if (!terminal_) {
    fmt::print(stderr, "{}\n", line);
    return;
  }
  line.resize(std::min(line.size(), terminal_columns() - 1));
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
  bar_shown_ = true;
}

void Console::clear_bar() {
  if (!bar_shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  bar_shown_ = false;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string shell_word(const std::string& text) {
  if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_-./+:,@%") == std::string::npos) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Schedulers send these as warnings: nothing is to be done about them.
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
}

}  // namespace shardmill::tools
