// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/sample.h>
#include <shardmill/loader/random.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace shardmill {

/// What one output of a batch is made of.
enum class OutputKind : std::uint8_t {
  kImage,     ///< An encoded image, decoded: uint8 rows of height × width × 3, RGB.
  kClass,     ///< A decimal class number: int64 rows without extent.
  kArray,     ///< An .npy or numeric HDF5 field: rows of one dtype and shape.
  kBytes,     ///< Stored bytes of any length: values behind each other, and offsets.
  kComputed,  ///< What a function of the user's makes of the sample.
};

/// Fills one row of a computed output: `row` has the bytes of one row, all zero or left over from
/// an earlier batch. Runs in a worker process (a copy of the program as it was when the loader
/// was constructed) and may throw; the error then names the sample.
using RowFunction =
    std::function<void(const SampleView& sample, Random& random, std::span<std::byte> row)>;

/// One named output of every batch. Made by the functions below.
struct Output {
  std::string name;  ///< Its name in the batch.
  OutputKind kind = OutputKind::kBytes;
  std::string field = {};  ///< The sample's; empty for images and bytes: its first image field.
  ArrayType row = {};  ///< Type of one row. For kArray an empty shape means: as the first sample.
  RowFunction compute = {};
};

/// Declares `name` as images resized to cover `width` × `height` pixels and cropped to the centre.
Output image_output(std::string name, std::uint32_t width, std::uint32_t height,
                    std::string field = {});
/// Declares `name` as the class numbers of `field`.
Output class_output(std::string name = "label", std::string field = "cls");
/// Declares `name` as the arrays in `field`; dtype and shape are those of the first sample.
Output array_output(std::string name, std::string field);
/// Declares `name` as the stored bytes of `field`; empty: of the first image field.
Output bytes_output(std::string name, std::string field);
/// Declares `name` as rows that `compute` fills.
Output computed_output(std::string name, ArrayType row, RowFunction compute);

/// Throws kInvalidArgument naming the output unless `outputs` make sense.
void check_outputs(const std::vector<Output>& outputs);

}  // namespace shardmill
