// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/support/support.h"

namespace shardmill::test {

/// Runs `shardmill ARGUMENTS` (a piece of shell) in the directory `at`. In what it prints, `at`
/// becomes `@`, so that it can be compared with fixed text.
inline CommandResult shardmill_in(const std::filesystem::path& at, const std::string& arguments) {
  CommandResult result = run_command("cd '" + at.string() +
                                     "' && '" SHARDMILL_BINARY_DIR "/bin/shardmill' " + arguments);
  for (std::string* text : {&result.out, &result.err}) {
    for (std::size_t i; (i = text->find(at.string())) != std::string::npos;) {
      text->replace(i, at.string().size(), "@");
    }
  }
  return result;
}

}  // namespace shardmill::test
