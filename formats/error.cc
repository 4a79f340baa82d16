// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace shardmill {

namespace {

constexpr std::array<std::string_view, 7> kCodeNames = {
    "not_found", "invalid_argument", "data_loss", "unsupported", "resource_exhausted",
    "io",        "internal"};

// Returns the length of the valid UTF-8 sequence at `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

std::string message(const ErrorInfo& info) {
  std::string text = escape(info.path);
  const auto append = [&text](std::string_view separator, const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += separator;
    // Places and causes are composed from escaped parts already; only line breaks are left.
    for (const char c : part) text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  };
  append(": ", info.place);
  append(": ", info.cause);
  append("; ", info.remedy);
  return text;
}

}  // namespace

std::string_view error_code_name(ErrorCode code) noexcept {
  return kCodeNames[static_cast<std::size_t>(code)];
}

ErrorCode error_code_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kCodeNames.size(); ++i) {
    if (kCodeNames[i] == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kInternal;
}

Error::Error(ErrorInfo info) : info_(std::move(info)), text_(message(info_)) {}

Error::Error(ErrorCode code, std::string path, std::string place, std::string cause,
             std::string remedy)
    : Error(ErrorInfo{code, std::move(path), std::move(place), std::move(cause),
                      std::move(remedy)}) {}

Error system_error(int error_number, std::string path, std::string what, std::string remedy) {
  ErrorCode code = ErrorCode::kIo;
  switch (error_number) {
    case ENOENT:
      code = ErrorCode::kNotFound;
      break;
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::kResourceExhausted;
      if (remedy.empty()) remedy = "free space and run again";
      break;
    case EMFILE:
    case ENFILE:
      code = ErrorCode::kResourceExhausted;
      if (remedy.empty()) remedy = "raise the limit of open files (ulimit -n)";
      break;
    case ENOMEM:
      code = ErrorCode::kResourceExhausted;
      break;
    case EACCES:
    case EPERM:
      if (remedy.empty()) remedy = "check owner and permissions";
      break;
    default:
      break;
  }
  std::string words = std::strerror(error_number);
  if (words.size() > 1 && words[0] >= 'A' && words[0] <= 'Z' && words[1] >= 'a') words[0] += 32;
  return {code, std::move(path), {}, std::move(what) + ": " + words, std::move(remedy)};
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0 || first < 0x20 || first == 0x7F || first == '\\') {
      char hex[5];
      std::snprintf(hex, sizeof hex, "\\x%02x", first);
      out += hex;
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

std::string sample_place(std::string_view key, std::string_view field) {
  std::string place = "sample \"" + escape(key) + "\"";
  if (!field.empty()) place += " field \"" + escape(field) + "\"";
  return place;
}

namespace {

// Takes `NAME "TEXT"` from the front of `place` into `text`, undoing escape(). A quote inside TEXT
// is not escaped; the right one is followed by the end, a space or a colon.
bool take_quoted(std::string_view& place, std::string_view name, std::string& text) {
  const std::string begin = std::string(name) + " \"";
  if (!place.starts_with(begin)) return false;
  std::size_t at = begin.size();
  for (; at < place.size(); ++at) {
    if (place[at] == '"' &&
        (at + 1 == place.size() || place[at + 1] == ' ' || place[at + 1] == ':')) {
      place.remove_prefix(at + 1);
      if (place.starts_with(' ')) place.remove_prefix(1);
      return true;
    }
    unsigned value = 0;
    if (place.substr(at).starts_with("\\x") && at + 4 <= place.size() &&
        std::from_chars(place.data() + at + 2, place.data() + at + 4, value, 16).ptr ==
            place.data() + at + 4) {
      text += static_cast<char>(value);
      at += 3;
    } else {
      text += place[at];
    }
  }
  text.clear();
  return false;
}

}  // namespace

SamplePlace parse_sample_place(std::string_view place) {
  SamplePlace found;
  if (take_quoted(place, "sample", found.key)) take_quoted(place, "field", found.field);
  return found;
}

namespace internal {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "shardmill: %s:%d: precondition failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace internal
}  // namespace shardmill
