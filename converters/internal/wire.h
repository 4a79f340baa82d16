// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardmill::internal {

/// Packs numbers and byte strings for the way between two processes of one program.
class WireWriter {
 public:
  WireWriter& number(std::uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  WireWriter& text(std::string_view value) {
    number(value.size());
    bytes_ += value;
    return *this;
  }
  WireWriter& error(const ErrorInfo& info) {
    number(static_cast<std::uint64_t>(info.code));
    return text(info.path).text(info.place).text(info.cause).text(info.remedy);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Unpacks what WireWriter packed, in the same order. Aborts on anything else.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    SHARDMILL_CHECK(bytes_.size() >= sizeof value);
    bytes_.copy(reinterpret_cast<char*>(&value), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const std::uint64_t size = number();
    SHARDMILL_CHECK(bytes_.size() >= size);
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  ErrorInfo error() {
    ErrorInfo info;
    info.code = static_cast<ErrorCode>(number());
    info.path = text();
    info.place = text();
    info.cause = text();
    info.remedy = text();
    return info;
  }

 private:
  std::string_view bytes_;
};

}  // namespace shardmill::internal
