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

CLI::Option* add_shuffle_option(CLI::App& app, Shuffle& value) {
  const std::map<std::string, Shuffle> names = {
      {"none", Shuffle::kNone}, {"full", Shuffle::kFull}, {"block", Shuffle::kBlock}};
  return app.add_option("--shuffle", value, "Order of the samples")
      ->type_name("none|full|block")
      ->transform(CLI::CheckedTransformer(names, CLI::ignore_case).description(""))
      ->default_str("none");
}

}  // namespace shardmill::tools
