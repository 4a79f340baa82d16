// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/formats/error.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <string_view>

namespace shardmill::tools {

/// Thrown when the reader of stdout has gone (`| head`): the program ends quietly.
struct OutputClosed {};

/// The program's voice: results on stdout; progress, warnings and errors on stderr.
class Console {
 public:
  Console();

  bool json = false;   ///< Print one JSON object instead of text on stdout.
  bool quiet = false;  ///< Print neither progress nor notes.

  /// Writes one line of results to stdout. REQUIRES: json is off.
  void print(std::string_view line);
  /// Writes the one JSON object of this run to stdout; bytes that are not UTF-8 become U+FFFD.
  void print_json(const nlohmann::ordered_json& object);
  /// Writes a line to stderr unless quiet.
  void note(std::string_view line);
  /// Writes `shardmill: warning: TEXT` to stderr, also if quiet.
  void warn(std::string_view text);
  /// Writes the error as one line to stderr and, with json, as an object to stdout.
  void fail(const ErrorInfo& info, std::string_view code);

  /// Returns an observer that shows progress, prints warnings and stops on SIGINT and SIGTERM.
  Observer observer();
  /// Flushes stdout; throws OutputClosed, or kIo if what was printed could not be written.
  void flush();

 private:
  void show(const Progress& progress);
  void clear_bar();
  void write_out(std::string_view text);

  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool bar_shown_ = false;
  std::stop_source stop_;
  std::string phase_;
  Clock::time_point phase_begin_;
  Clock::time_point last_shown_;
};

/// Returns `bytes` for people, e.g. "1.4 GiB", and `count` with separators, e.g. "1,281,167".
std::string human_bytes(std::uint64_t bytes);
std::string human_count(std::uint64_t count);

/// Returns `text` as one word for the shell, quoted where it needs it.
std::string shell_word(const std::string& text);

/// Makes SIGINT and SIGTERM ask running operations to stop; a second one ends the program. SIGPIPE
/// is ignored: writing to a closed pipe is an error like any other. So are SIGUSR1 and SIGUSR2.
void install_signal_handlers();

}  // namespace shardmill::tools
