// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/sum_file.h"

#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <array>
#include <cstring>

#include "formats/internal/input_file.h"
#include "formats/internal/output_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "SHMSUM1\n";
constexpr std::size_t kHeaderBytes = 24;  // magic, count, XXH3-64 of the hashes

void put(std::byte* out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint64_t get(const std::byte* in) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(in[i]) << (8 * i);
  return value;
}

}  // namespace

fs::path sum_path(const fs::path& directory, std::string_view url) {
  if (url == ".") return directory / "shard-000000.sum";
  return (directory / url).replace_extension(".sum");
}

void save_sums(const fs::path& file, const std::vector<std::uint64_t>& sums) {
  std::vector<std::byte> bytes(kHeaderBytes + 8 * sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) put(&bytes[kHeaderBytes + 8 * i], sums[i]);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(&bytes[8], sums.size());
  put(&bytes[16], XXH3_64bits(bytes.data() + kHeaderBytes, bytes.size() - kHeaderBytes));
  write_file(file, bytes);
}

std::optional<std::vector<std::uint64_t>> load_sums(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  InputFile input(file, Access::kRead);
  const Bytes bytes = input.bytes(0, input.size());
  const bool header = bytes.size() >= kHeaderBytes && as_text(bytes).starts_with(kMagic);
  const Bytes body = header ? bytes.subspan(kHeaderBytes) : Bytes{};
  if (!header || body.size() % 8 != 0 || get(&bytes[8]) != body.size() / 8 ||
      get(&bytes[16]) != XXH3_64bits(body.data(), body.size())) {
    throw Error(ErrorCode::kDataLoss, file.string(), {}, "the list of sample hashes is damaged",
                "delete it: shards are then checked by their own checksums alone");
  }
  std::vector<std::uint64_t> sums(body.size() / 8);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = get(&body[8 * i]);
  return sums;
}

}  // namespace shardmill::internal
