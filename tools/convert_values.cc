// SPDX-License-Identifier: Apache-2.0
#include "tools/convert_values.h"

#include <shardmill/formats/error.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "tools/command.h"

namespace shardmill::tools {

void parse_image_size(const std::string& text, ConvertOptions& options) {
  std::array<std::uint32_t, 2> sides{};
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, sides[0]);
  const bool one = first.ec == std::errc() && first.ptr == end && sides[0] > 0;
  if (one) {
    options.image_shorter = sides[0];
    return;
  }
  const bool cross = first.ec == std::errc() && *first.ptr == 'x';
  const auto second = std::from_chars(cross ? first.ptr + 1 : end, end, sides[1]);
  if (!cross || second.ec != std::errc() || second.ptr != end) {
    throw CLI::ValidationError("--image-size",
                               "\"" + text + "\" is neither N nor WxH, for example 256 or 224x224");
  }
  options.image_size = ImageSize{sides[0], sides[1]};
}

Amount parse_amount(const std::string& option, const std::string& text, bool sizes) {
  Amount amount;
  if (text.empty() || text.back() != '%') {
    if (sizes) {
      amount.count = parse_size(option, text);
      return amount;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.count);
    if ((error != std::errc() || end != text.data() + text.size())) {
      throw CLI::ValidationError(option,
                                 "\"" + text + "\" is neither a number nor a share such as 1%");
    }
    return amount;
  }
  const char* const end = text.data() + text.size() - 1;
  const auto [rest, error] = std::from_chars(text.data(), end, amount.percent);
  if (error != std::errc() || rest != end || !(amount.percent >= 0 && amount.percent <= 100)) {
    throw CLI::ValidationError(option, "\"" + text + "\" is no share between 0% and 100%");
  }
  return amount;
}

std::pair<std::string, std::string> parse_pair(const std::string& option, const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw CLI::ValidationError(option, "\"" + text + "\" has not the form A=B");
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

void add_pairs(CLI::App& app, const std::string& name,
               std::vector<std::pair<std::string, std::string>>& pairs, const std::string& help,
               const std::string& type) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&pairs, name](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) pairs.push_back(parse_pair(name, text));
         },
         help)
      ->type_name(type)
      ->delimiter(',');
}

RankInfo array_rank() {
  const auto number = [](const char* name, int fallback) {
    const char* const text = std::getenv(name);
    int value = fallback;
    if (text == nullptr && fallback >= 0) return fallback;
    const char* const end = text == nullptr ? nullptr : text + std::strlen(text);
    if (text == nullptr || std::from_chars(text, end, value).ptr != end) {
      throw Error(ErrorCode::kInvalidArgument, "--array", {},
                  std::string(name) + (text == nullptr ? " is not set" : " is no number"),
                  "start it as a Slurm job array (sbatch --array=0-7)");
    }
    return value;
  };
  const int first = number("SLURM_ARRAY_TASK_MIN", 0);
  return {number("SLURM_ARRAY_TASK_ID", -1) - first, number("SLURM_ARRAY_TASK_COUNT", -1),
          "SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_COUNT"};
}

}  // namespace shardmill::tools
