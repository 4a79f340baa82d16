// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/sets.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <map>

namespace shardmill::hdf5 {

namespace {

constexpr std::size_t kMaxListed = 20;
constexpr std::string_view kJoints = "/_-.";

std::size_t common(const std::string& a, const std::string& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::size_t>(end - a.begin());
}

// What the names of one length begin with, and no others: up to a joint, or one whole name.
std::string choice(const std::vector<Rows>& datasets, std::uint64_t count) {
  std::string prefix;
  bool first = true;
  for (const Rows& dataset : datasets) {
    if (dataset.count != count) continue;
    if (!first) prefix.resize(common(prefix, dataset.name));
    if (first) prefix = dataset.name;
    first = false;
  }
  const bool whole = std::any_of(datasets.begin(), datasets.end(),
                                 [&](const Rows& dataset) { return dataset.name == prefix; });
  if (!whole) prefix.resize(prefix.find_last_of(kJoints) + 1);
  if (prefix.size() > 1 && prefix.back() == '/') prefix.pop_back();
  const bool others = std::any_of(datasets.begin(), datasets.end(), [&](const Rows& dataset) {
    return dataset.count != count && dataset.name.starts_with(prefix);
  });
  return others ? std::string() : prefix;
}

}  // namespace

std::string chosen_prefix(const std::string& inner, const std::vector<std::string>& datasets) {
  std::string prefix = inner.starts_with('/') ? inner : '/' + inner;
  while (prefix.size() > 1 && prefix.back() == '/') prefix.pop_back();
  const auto any = [&](const std::string& start) {
    return std::any_of(datasets.begin(), datasets.end(),
                       [&](const std::string& name) { return name.starts_with(start); });
  };
  if (std::find(datasets.begin(), datasets.end(), prefix) != datasets.end()) return prefix;
  if (prefix == "/" || any(prefix + '/')) return prefix == "/" ? prefix : prefix + '/';
  return any(prefix) ? prefix : std::string();
}

std::string field_name(const std::string& dataset, const std::string& prefix) {
  if (dataset == prefix) return dataset.substr(dataset.rfind('/') + 1);
  const std::size_t begin = dataset.find_first_not_of(kJoints, prefix.size());
  return dataset.substr(begin == std::string::npos ? prefix.size() : begin);
}

void require_one_length(const std::vector<Rows>& datasets, const std::string& path) {
  std::map<std::uint64_t, std::string> choices;
  std::string listing;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    choices.emplace(datasets[i].count, std::string());
    if (i > kMaxListed) continue;
    listing += i == 0 ? "" : ", ";
    listing += i == kMaxListed
                   ? std::string("…")
                   : escape(datasets[i].name) + ": " + std::to_string(datasets[i].count);
  }
  if (choices.size() < 2) return;
  std::string remedy;
  for (auto& [count, prefix] : choices) {
    prefix = choice(datasets, count);
    if (prefix.empty() || prefix == "/") continue;
    remedy += (remedy.empty() ? "choose one set: " : ", ") + escape(path) + '#' + escape(prefix);
  }
  throw Error(ErrorCode::kInvalidArgument, path, {},
              "its datasets have different lengths (" + listing + ")",
              remedy.empty()
                  ? "choose a group or the beginning of names with " + escape(path) + "#NAME"
                  : remedy);
}

}  // namespace shardmill::hdf5
