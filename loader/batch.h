// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

namespace internal {
class Engine;
class SlotLease;

/// Keeps a batch's memory from being used again, after it was let go, before `done` returns true.
/// `lease` is what Batch::lease() returned. `done` is called by the loader's thread. Any thread.
void hold_until(const std::shared_ptr<const void>& lease, std::function<bool()> done);
/// True if the memory behind `lease` is page-locked.
bool is_pinned(const std::shared_ptr<const void>& lease) noexcept;
}  // namespace internal

/// One output of a batch, in the batch's memory.
///
/// With rows of one size, `data` holds size × row bytes, C order. Otherwise (`ragged`) the values
/// lie behind each other and `offsets`, size + 1 of them, say where: value i is the elements
/// offsets[i] … offsets[i + 1]; elements are bytes, or those of tokens. With `lengths` (a list
/// output) they lie in any order, with gaps: value i has lengths[i] elements from offsets[i] on.
struct BatchOutput {
  std::string name;
  ArrayType row;  ///< Type of one row; of one element (no extent; bytes: uint8) where ragged.
  bool ragged = false;
  std::span<std::byte> data;
  std::span<const std::int64_t> offsets;
  std::span<const std::int64_t> lengths;  ///< List outputs only.
  /// Padded outputs only: each row's true extents: the length, or height and width.
  std::span<const std::int64_t> sizes;
  /// Optional outputs only: 1 for each row whose sample has the field, else 0.
  std::span<const std::uint8_t> present;

  /// Views the rows as elements of type T. REQUIRES: sizeof(T) is the size of row.dtype.
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  /// Returns value `i` of a ragged output, as bytes or as text.
  std::span<const std::byte> value(std::size_t i) const noexcept {
    const std::int64_t length = lengths.empty() ? offsets[i + 1] - offsets[i] : lengths[i];
    const std::size_t element = dtype_size(row.dtype);
    return data.subspan(static_cast<std::size_t>(offsets[i]) * element,
                        static_cast<std::size_t>(length) * element);
  }
  std::string_view text(std::size_t i) const noexcept {
    const std::span<const std::byte> bytes = value(i);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// Samples that were loaded together. The batch *is* a slot of the loader's shared memory, lent:
/// nothing was copied. Copies of a Batch share the slot; it goes back to the loader when the last
/// copy, lease or tensor made from it is gone, and outlives the Loader if need be. The consumer
/// may write into it. One thread at a time per copy; copies may be dropped in any thread.
class Batch {
 public:
  Batch() = default;

  /// False only for a default-constructed batch.
  explicit operator bool() const noexcept { return lease_ != nullptr; }
  std::size_t size() const noexcept { return samples_.size(); }  ///< Rows.
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t index() const noexcept { return index_; }  ///< Number within the epoch, from 0.
  /// Returns each row's sample number in the dataset.
  std::span<const std::uint64_t> samples() const noexcept { return samples_; }
  /// Returns each row's global position in the epoch, as Loader::replay() takes it.
  std::span<const std::uint64_t> positions() const noexcept { return positions_; }
  /// Returns 1 for each row that counts, 0 for one that only fills up the ranks' last batches
  /// (Uneven::kPad): leave those out of metrics.
  std::span<const std::uint8_t> valid() const noexcept { return valid_; }
  /// Returns each row's sample's key, cut at 1023 bytes. Valid while the batch is.
  std::vector<std::string_view> keys() const;
  const std::vector<BatchOutput>& outputs() const noexcept { return outputs_; }
  /// Returns the output called `name`; throws kNotFound listing the names there are.
  const BatchOutput& operator[](std::string_view name) const;

  /// Returns what keeps the memory alive: hold it as long as you use `data` without the batch.
  std::shared_ptr<const void> lease() const noexcept;

  /// Says that `stream` (a cudaStream_t) has been given work that reads this batch: its memory is
  /// not used again before that work has ended. Needed for streams other than the default one, and
  /// with tensors of loader/torch for those other than the current one of the thread that drops
  /// the last of them. Without effect unless memory is page-locked.
  void record_stream(void* stream) const;

 private:
  friend class internal::Engine;
  std::shared_ptr<internal::SlotLease> lease_;
  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;
  std::vector<std::uint64_t> samples_;
  std::vector<std::uint64_t> positions_;
  std::vector<std::uint8_t> valid_;
  std::vector<BatchOutput> outputs_;
};

}  // namespace shardmill
