// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/origin.h"

#include <shardmill/formats/error.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/internal/output_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kVersion = 1;

// Paths may hold any bytes, JSON may not.
std::string to_hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

bool is_plain(const std::string& text) { return escape(text) == text; }

}  // namespace

void save_origin(const fs::path& directory, const Origin& origin) {
  Json json = {{"shardmill_origin", kVersion}, {"parts", origin.parts}};
  json["options"] = Json::object();
  for (const auto& [name, text] : origin.options) {
    if (is_plain(text)) {
      json["options"][name] = text;
    } else {
      json["options"][name] = {{"hex", to_hex(text)}};
    }
  }
  const std::string text = json.dump(1) + "\n";
  write_file(directory / kOriginName, as_bytes(text));
}

std::optional<Origin> load_origin(const fs::path& directory) {
  std::ifstream in(directory / kOriginName);
  if (!in) return std::nullopt;
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("shardmill_origin", 0) != kVersion) return std::nullopt;
  Origin origin;
  try {
    origin.parts = json.at("parts").get<std::vector<std::string>>();
    for (const auto& [name, value] : json.at("options").items()) {
      origin.options[name] = value.is_string() ? value.get<std::string>()
                                               : from_hex(value.at("hex").get<std::string>());
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return origin;
}

std::string quoted_word(const std::string& text) {
  if (!text.empty() &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_-./+:,@%=") == std::string::npos) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string rebuild_command(const fs::path& directory, const Origin& origin) {
  std::string command = "shardmill convert";
  const auto sources = origin.options.find("SOURCE");
  if (sources != origin.options.end()) {
    for (const std::string& source : unpack_texts(sources->second)) {
      command += " " + quoted_word(source);
    }
  }
  command += " " + quoted_word(directory.string());
  for (const std::string& word : option_words(origin.options)) command += " " + quoted_word(word);
  return command + " --resume";
}

}  // namespace shardmill::internal
