// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/superblock.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>

#include "formats/hdf5/internal/little_endian.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
constexpr std::uint64_t kFirstUserBlock = 512;

bool is_signature(const void* bytes) noexcept {
  return std::memcmp(bytes, kSignature.data(), kSignature.size()) == 0;
}

[[noreturn]] void damaged(const internal::InputFile& file, const std::string& cause,
                          const std::string& remedy = "copy or convert the file again") {
  throw Error(ErrorCode::kDataLoss, file.path(), "superblock", cause, remedy);
}

std::optional<std::uint64_t> find_signature(internal::InputFile& file) {
  for (std::uint64_t at = 0; at + kSignature.size() <= file.size();
       at = at == 0 ? kFirstUserBlock : at * 2) {
    if (is_signature(file.bytes(at, kSignature.size()).data())) return at;
  }
  return std::nullopt;
}

// Versions 0 and 1 differ in four bytes before the addresses; 2 and 3 have the same form.
Superblock parse(internal::InputFile& file, std::uint64_t position) {
  Superblock block;
  block.position = position;
  block.version = static_cast<int>(file.bytes(position + 8, 1)[0]);
  if (block.version > 3) {
    throw Error(ErrorCode::kUnsupported, file.path(), "superblock",
                "unknown superblock version " + std::to_string(block.version),
                "convert the file with a newer HDF5, or the file is damaged");
  }
  const bool old = block.version <= 1;
  const std::uint64_t sizes_at = position + (old ? 13 : 9);
  const std::uint64_t addresses_at = position + (old ? (block.version == 0 ? 24u : 28u) : 12u);
  for (const std::uint64_t at : {sizes_at, sizes_at + 1}) {  // of addresses, of lengths
    if (file.bytes(at, 1)[0] == std::byte{8}) continue;
    throw Error(ErrorCode::kUnsupported, file.path(), "superblock",
                "addresses of " + std::to_string(static_cast<int>(file.bytes(at, 1)[0])) +
                    " bytes, only 8 are supported",
                "copy it with h5repack, or the file is damaged");
  }
  // Behind the addresses stands that of the root group; in old files a table entry, name first.
  const Bytes addresses = file.bytes(addresses_at, old ? 72 : 32);
  block.root = little_endian<std::uint64_t>(addresses, old ? 40 : 24);
  if (old) {
    block.root_is_cached = little_endian<std::uint32_t>(addresses, 48) == 1;
    block.root_tree = little_endian<std::uint64_t>(addresses, 56);
    block.root_heap = little_endian<std::uint64_t>(addresses, 64);
  }
  // Stored is an absolute end that includes the stored base. The library accepts a file that was
  // moved behind another user block; what counts then is where the signature was found.
  const auto base = little_endian<std::uint64_t>(addresses, 0);
  const auto end = little_endian<std::uint64_t>(addresses, 16);
  if (end < base || __builtin_add_overflow(end - base, position, &block.end_of_file)) {
    damaged(file, "absurd length");
  }
  block.base = position;
  if (old) {
    const Bytes ranks = file.bytes(position + 16, 4);
    block.leaf_rank = little_endian<std::uint16_t>(ranks, 0);
    block.tree_rank = little_endian<std::uint16_t>(ranks, 2);
  }
  // Version 2 has the byte, but nobody heeds it there.
  if (block.version >= 3) {
    block.open_for_writing = (file.bytes(position + 11, 1)[0] & std::byte{5}) != std::byte{0};
  }
  return block;
}

}  // namespace

Superblock check_superblock(internal::InputFile& file) {
  const auto position = find_signature(file);
  if (!position) {
    damaged(file, file.size() == 0 ? "empty file" : "no HDF5 signature",
            "its writer did not finish it, or it is no HDF5 file; convert again");
  }
  const Superblock block = parse(file, *position);
  if (block.end_of_file > file.size()) {
    damaged(file,
            "truncated: " + std::to_string(file.size()) + " bytes are there, " +
                std::to_string(block.end_of_file) + " are expected",
            "copy the file again, or, if its writer died before closing it, write it again");
  }
  if (block.open_for_writing) {
    damaged(file, "not closed by its writer",
            "wait until the writer has finished; if it died, run h5clear -s on a copy");
  }
  return block;
}

bool has_signature(const std::filesystem::path& path) noexcept {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat status {};
  bool found = false;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    std::array<char, kSignature.size()> bytes{};
    for (off_t at = 0; !found && at + 8 <= status.st_size; at = at == 0 ? 512 : at * 2) {
      found = pread(fd, bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size()) &&
              is_signature(bytes.data());
    }
  }
  close(fd);
  return found;
}

}  // namespace shardmill::hdf5
