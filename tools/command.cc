// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include <charconv>

namespace shardmill::tools {

std::uint64_t parse_size(const std::string& option, const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  unsigned shift = 0;
  if (!unit.empty()) {
    constexpr std::string_view kUnits = "BKMGT";
    const char letter =
        unit[0] >= 'a' && unit[0] <= 'z' ? static_cast<char>(unit[0] - 32) : unit[0];
    const std::size_t at = kUnits.find(letter);
    unit.remove_prefix(1);
    shift = at == std::string_view::npos ? 64 : static_cast<unsigned>(10 * at);
    if (shift > 0 && (unit == "iB" || unit == "B")) unit = {};
  }
  if (error != std::errc() || shift >= 64 || !unit.empty() ||
      value > (~std::uint64_t{0} >> shift)) {
    throw CLI::ValidationError(option, "\"" + text + "\" is not a size such as 64K, 256M or 1G");
  }
  return value << shift;
}

CLI::Option* add_size_option(CLI::App& app, const std::string& name, std::uint64_t& value,
                             const std::string& help) {
  return app.add_option_function<std::string>(
      name, [&value, name](const std::string& text) { value = parse_size(name, text); }, help);
}

CLI::Option* add_kind_option(CLI::App& app, std::string& kind) {
  return app
      .add_option("--as", kind,
                  "What the data is to be taken for: shards, tar, lmdb, hdf5, folder, "
                  "class-per-directory, flat, caffe, str, plain")
      ->type_name("KIND");
}

std::string with_kind(const std::string& spec, const std::string& kind) {
  return kind.empty() ? spec : spec + "#as=" + kind;
}

namespace {

// An option that takes one of a few words.
template <class Value>
CLI::Option* add_word_option(CLI::App& app, const std::string& name, Value& value,
                             const std::vector<std::pair<std::string, Value>>& words,
                             const std::string& help) {
  std::string all;
  for (const auto& [word, meaning] : words) all += (all.empty() ? "" : "|") + word;
  const auto set = [&value, name, words, all](const std::string& text) {
    for (const auto& [word, meaning] : words) {
      if (word != text) continue;
      value = meaning;
      return;
    }
    throw CLI::ValidationError(name, "\"" + text + "\" is not one of " + all);
  };
  return app.add_option_function<std::string>(name, set, help)
      ->type_name(all)
      ->default_str(words.front().first);
}

}  // namespace

CLI::Option* add_shuffle_option(CLI::App& app, Shuffle& value) {
  return add_word_option<Shuffle>(
      app, "--shuffle", value,
      {{"none", Shuffle::kNone}, {"full", Shuffle::kFull}, {"block", Shuffle::kBlock}},
      "Order of the samples");
}

CLI::Option* add_uneven_option(CLI::App& app, Uneven& value) {
  return add_word_option<Uneven>(
      app, "--uneven", value,
      {{"pad", Uneven::kPad}, {"drop", Uneven::kDrop}, {"exact", Uneven::kExact}},
      "What happens where the ranks' shares are unequal");
}

}  // namespace shardmill::tools
