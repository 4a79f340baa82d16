// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmill::internal {

/// Prints `shardmill: warning: TEXT` to stderr.
void warn(const std::string& text);
/// The same, but a text that was printed before is not printed again. Any thread.
void warn_once(const std::string& text);

}  // namespace shardmill::internal
