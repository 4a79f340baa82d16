// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/index.h>

#include <cstddef>
#include <string>
#include <vector>

#include "converters/internal/adoption.h"
#include "converters/internal/field_scan.h"

namespace shardmill::internal {

/// One field of the samples while an index is being planned.
struct FieldDraft {
  FieldRule rule;
  FieldSummary summary;   ///< Of the values as they are found.
  std::size_t group = 0;  ///< Which group has it ...
  std::string found_as;   ///< ... under which name.
};

/// The fields of an adopted dataset, and its classes.
struct FieldDrafts {
  std::vector<FieldDraft> fields;  ///< Sorted by name.
  std::vector<std::string> classes;
  bool class_sorted = false;
  bool changed = false;  ///< Not simply what the sources hold: the manifest needs rules.
};

/// Looks at all samples and applies `--fields`, `--rename`, `--class-from` and `--classes`.
FieldDrafts draft_fields(const Adoption& adoption, const IndexOptions& options,
                         const Observer& observer);

/// Returns what a manifest says about the field.
FieldSpec spec_of(const FieldDraft& draft);

}  // namespace shardmill::internal
