// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

inline constexpr unsigned kLayoutMessage = 0x08;

/// One message of an object header: its type number and body.
struct HeaderMessage {
  unsigned type = 0;
  std::vector<std::byte> body;
};

/// Returns the messages of the object header (version 1 or 2) at the stored address `header`,
/// continuation blocks included. Our own walk, checked against the file at every step: the
/// library reads past the end of messages whose sizes are damaged. Throws kDataLoss.
std::vector<HeaderMessage> read_object_header(internal::InputFile& file, std::uint64_t base,
                                              std::uint64_t header, const std::string& place);

/// The attributes of an object, as far as shardmill's own need it.
class Attributes {
 public:
  /// Reads them from the object's header; `file` and `place` name it in errors.
  Attributes(internal::InputFile& file, std::uint64_t base, std::uint64_t header,
             const std::string& place);

  bool has(std::string_view name) const;
  /// True if there are others outside the header (more than eight, newer file formats), which are
  /// not seen here.
  bool more_elsewhere() const noexcept { return more_elsewhere_; }
  /// Returns the elements of an attribute of 8-byte little-endian integers, nothing if there is
  /// no such attribute. Throws kDataLoss if it holds something else.
  std::optional<std::vector<std::uint64_t>> numbers(std::string_view name) const;

 private:
  struct Parts {
    std::string_view name;
    Bytes type;
    Bytes space;
    Bytes data;
  };
  [[noreturn]] void damaged(std::string_view name) const;
  std::optional<Parts> parts(Bytes body) const;
  std::optional<Parts> find(std::string_view name) const;

  std::string path_;
  std::string place_;
  std::vector<HeaderMessage> messages_;  // attributes only
  bool more_elsewhere_ = false;
};

}  // namespace shardmill::hdf5
