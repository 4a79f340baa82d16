// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/inspect.h>

#include <nlohmann/json_fwd.hpp>

#include "tools/console.h"

namespace shardmill::tools {

/// Returns what `inspect --json` shows of a dataset.
nlohmann::ordered_json to_json(const Inspection& inspection);
/// Prints the same for people.
void print_inspection(const Inspection& inspection, const std::string& spec, Console& console);

/// Length and SHA-256 of a field as files hold it: an array counts as its .npy file, so that equal
/// samples have equal sums in every format.
struct FieldSum {
  std::uint64_t bytes = 0;
  std::string sha256;
};
FieldSum sum_field(const FieldView& field);

/// Returns one sample: number, key, and of each field bytes, type, SHA-256 and, if it is short
/// text, the text. Prints the same for people.
nlohmann::ordered_json to_json(const SampleView& sample, std::uint64_t number);
void print_sample(const SampleView& sample, std::uint64_t number, Console& console);

}  // namespace shardmill::tools
