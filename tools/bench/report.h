// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/bench/figures.h"
#include "tools/bench/machine.h"
#include "tools/console.h"

namespace shardmill::tools::bench {

/// Everything that a report is made of.
struct Report {
  Machine machine;
  Settings settings;
  std::vector<Subject> subjects;
  Ceilings ceilings;
  std::vector<Row> rows;
  std::string recommendation;
};

/// Returns the object that CLI.md promises for `bench --json`.
nlohmann::ordered_json to_json(const Report& report);

/// Prints the report for people: the recommendation, the datasets, one line a row, the ceilings.
void print(const Report& report, Console& console);

}  // namespace shardmill::tools::bench
