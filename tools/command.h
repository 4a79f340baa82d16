// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/console.h"

namespace shardmill::tools {

/// One verb of the program. To add a verb: write tools/VERB_command.cc, which defines
/// `std::unique_ptr<Command> make_VERB_command()`, name the verb in tools/CMakeLists.txt, and add
/// one line to the table in main.cc.
class Command {
 public:
  virtual ~Command() = default;

  /// Says in one line what the verb does.
  virtual std::string summary() const = 0;
  /// Returns one command line that shows how it is used; `--help` ends with it.
  virtual std::string example() const = 0;
  /// Adds the verb's own options and arguments. `--json`, `--quiet` and `--help` are there.
  virtual void define(CLI::App& app) = 0;
  /// Does the work and returns the exit code (0, or 1 for findings such as damage). Failures are
  /// thrown: shardmill::Error, Interrupted.
  virtual int run(Console& console) = 0;
};

/// Makes an option's value from text such as `64K`, `256M`, `1G` (powers of 1024) or a plain
/// number of bytes. Throws CLI::ValidationError naming `option`.
std::uint64_t parse_size(const std::string& option, const std::string& text);

/// Adds an option whose value is such a size.
CLI::Option* add_size_option(CLI::App& app, const std::string& name, std::uint64_t& value,
                             const std::string& help);

/// Adds `--as KIND`, which with_kind() puts behind a DATASET.
CLI::Option* add_kind_option(CLI::App& app, std::string& kind);
std::string with_kind(const std::string& spec, const std::string& kind);

/// Adds `--shuffle none|full|block`.
CLI::Option* add_shuffle_option(CLI::App& app, Shuffle& value);
/// Adds `--uneven pad|drop|exact`.
CLI::Option* add_uneven_option(CLI::App& app, Uneven& value);

}  // namespace shardmill::tools
