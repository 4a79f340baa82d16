// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/settings.h"

namespace shardmill::tools::bench {

/// A dataset under measurement, and what is loaded from it.
struct Subject {
  std::string name;  ///< As the report calls it.
  std::string spec;  ///< What is opened.
  std::string format;
  std::uint64_t samples = 0;
  std::uint64_t stored_bytes = 0;  ///< Of all its files.
  std::uint64_t files = 0;
  std::optional<double> convert_seconds;  ///< Only where this program has just written it.
  std::string content_digest;             ///< Empty: not known.
  Decode decode;
  std::vector<Output> outputs;  ///< Empty: as the loader infers them.
};

/// Opens a dataset, reads all of it once (up to a few seconds' worth), so that its pages are in
/// memory, and learns its content digest on the way where the manifest does not tell it. Says
/// through `observer.warning` if that was not all of it.
Subject make_subject(const std::string& spec, const Settings& settings, const Observer& observer);

/// Throws kInvalidArgument naming the first dataset that holds other samples than the first one.
/// Warns of those whose content is not known.
void check_equal_content(const std::vector<Subject>& subjects, const Observer& observer);

}  // namespace shardmill::tools::bench
