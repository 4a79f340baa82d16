// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// A 128-bit hash (XXH3), as in manifests: 32 lower-case hexadecimal digits, high half first.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// Adds modulo 2^128, so that the digest of a set does not depend on its order.
  Digest& operator+=(const Digest& other) noexcept;
  std::string hex() const;
  /// Parses what hex() returned; throws kDataLoss otherwise.
  static Digest from_hex(std::string_view hex);
  auto operator<=>(const Digest&) const = default;
};

/// Hashes samples in canonical form: the key; then per field, sorted by name: the name, and the
/// value. The value of `cls` is its shortest decimal; of an array, whether .npy bytes or numeric
/// HDF5, its dtype, shape and C-order little-endian elements (the name is then hashed, and sorted,
/// without `.npy` at its end, which formats without arrays add); of all else the stored bytes. The
/// same sample so has the same hash in every format. One thread; reuses its buffers.
class SampleHasher {
 public:
  SampleHasher();
  ~SampleHasher();
  SampleHasher(SampleHasher&&) noexcept;
  SampleHasher& operator=(SampleHasher&&) noexcept;

  Digest hash(const SampleView& sample);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the XXH3-128 of `bytes`.
Digest hash_bytes(Bytes bytes);

/// Returns the XXH3-128 of a file's bytes, read once with large reads.
Digest hash_file(const std::string& path);

/// Returns the lower-case hexadecimal SHA-256 of `bytes`.
std::string sha256_hex(Bytes bytes);

/// An incremental SHA-256. One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(Bytes bytes);
  /// Returns the lower-case hexadecimal sum. REQUIRES: called once, last.
  std::string hex();

 private:
  void* context_;  // EVP_MD_CTX
};

}  // namespace shardmill
