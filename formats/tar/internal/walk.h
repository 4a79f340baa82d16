// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tar/internal/header.h"
#include "formats/tar/internal/tar_input.h"

namespace shardmill::tar {

/// One member of an archive as it was found.
struct Member {
  /// Valid until the walk's input lends other bytes.
  std::string_view name;
  char type = '0';                ///< The header's type flag; '5' also for names that end in '/'.
  bool sparse = false;            ///< Stored with its holes cut out, in any of the dialects.
  std::uint64_t size = 0;         ///< Bytes stored at data_offset.
  std::uint64_t real_size = 0;    ///< Size of the file: `size` unless sparse.
  std::uint64_t data_offset = 0;  ///< Its header block ends here.
  std::uint32_t header_hash = 0;

  bool regular() const noexcept { return type == '0' || type == '\0' || type == '7'; }
};

/// Walks the headers of an archive from the front: v7, ustar, star, GNU (long names, base-256
/// numbers, sparse files), pax. Throws kDataLoss with the offset for damage and for an archive
/// that is cut off; never reads outside the file.
class Walk {
 public:
  explicit Walk(TarInput& input) : input_(input) {}

  /// Moves to the next member; false at the end of the archive.
  bool next(Member& out);
  /// What was odd at the end. Complete once next() has returned false.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  // What pax records say; an empty text means "as in the header".
  struct Pax {
    std::string path;
    std::optional<std::uint64_t> size;
    std::optional<std::uint64_t> real_size;
    bool sparse = false;
  };

  bool header(Bytes& block);
  bool extension(char type, std::uint64_t size);
  void skip_sparse_map(Member& out, bool more);
  void fill(Member& out, Bytes block, char type, std::uint64_t size);
  void parse_pax(const std::string& records, std::uint64_t offset, Pax& out);
  void set_pax(Pax& out, std::string_view key, std::string_view value, std::uint64_t offset);
  void end_mark();
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& cause) const;

  TarInput& input_;
  std::uint64_t at_ = 0;           // offset of the next header block
  std::uint64_t last_header_ = 0;  // of the block before it
  bool extended_ = false;          // an extension header has been read for the next member
  bool found_any_ = false;
  Pax global_;
  Pax local_;
  bool has_local_ = false;
  std::string long_name_;  // from a GNU 'L' header
  std::string scratch_;    // a name composed of prefix and name
  std::vector<std::string> warnings_;
};

}  // namespace shardmill::tar
