// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/sample.h>
#include <shardmill/loader/decode/pixel_form.h>
#include <shardmill/loader/random.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// What one output of a batch is made of.
enum class OutputKind : std::uint8_t {
  kImage,     ///< An encoded image, decoded: rows of pixels; see PixelForm.
  kClass,     ///< A decimal class number: int64 rows without extent.
  kScalar,    ///< A number, as text or as an array of one element: rows without extent.
  kArray,     ///< An .npy or numeric HDF5 field: rows of one dtype and shape.
  kTokens,    ///< A sequence of integers: rows of one length, or ragged values.
  kBytes,     ///< Stored bytes of any length: values behind each other, and offsets.
  kMask,      ///< An image of labels, or an array of them: integers, height × width.
  kGeometry,  ///< How an image was placed: float32 rows of 8; see geometry_output().
  kComputed,  ///< What a function of the user's makes of the sample.
};

/// How values of different size become rows of one size.
struct Padding {
  /// 0: rows have the declared maximum. Else they are as large as the batch's largest value, in
  /// each extent rounded up to a multiple of this, and never above the maximum.
  std::uint64_t multiple = 0;
  double value = 0;  ///< What rows are filled up with.
};

/// One sample's row of one output while the sample is being made. May be written to.
struct RowView {
  std::span<std::byte> bytes;  ///< Where rows are padded to a multiple or ragged: the value alone.
  std::span<const std::int64_t> size = {};  ///< Padded outputs: as in BatchOutput::sizes.
  bool present = true;                      ///< False: an optional output's field is absent.
};

/// A random part of each image, resized to the output's size: the usual augmentation of training.
/// All images of one sample get the same part, if they have the same size.
struct RandomCrop {
  double min_area = 0.08;  ///< Of the image's area.
  double max_area = 1;
  double min_ratio = 3.0 / 4.0;  ///< Width to height, as likely below 1 as above.
  double max_ratio = 4.0 / 3.0;
  double flip = 0.5;  ///< How often it is mirrored, left to right.
};

/// What a computed output's function gets for one row. Valid during the call.
class RowContext {
 public:
  using FindRow = std::function<RowView(std::string_view)>;

  RowContext(const SampleView& sample, Random& random, std::span<std::byte> row,
             const FindRow& find)
      : sample(sample), random(random), row(row), find_(find) {}

  const SampleView& sample;
  Random& random;            ///< This row's and this output's own; see random.h.
  std::span<std::byte> row;  ///< To be filled; all zero.

  /// Returns the same sample's row of an output declared before this one, to read or to change
  /// it: a decoded image, say. Throws kNotFound.
  std::span<std::byte> row_of(std::string_view output) const { return find_(output).bytes; }
  /// The same, with its true size and whether it is there at all.
  RowView view_of(std::string_view output) const { return find_(output); }

 private:
  const FindRow& find_;
};

/// Fills one row of a computed output. Runs in a worker process (a copy of the program as it was
/// when the loader was constructed) and may throw; the error then names the sample.
using RowFunction = std::function<void(const RowContext&)>;

/// One named output of every batch. Made by the functions below, which say what its members mean.
struct Output {
  std::string name;  ///< Its name in the batch.
  OutputKind kind = OutputKind::kBytes;
  std::string field = {};  ///< The sample's; empty for images and bytes: its first image field.
  ArrayType row = {};      ///< Type of one row; padded: the largest.
  RowFunction compute = {};
  std::optional<Padding> padding = {};
  std::optional<RandomCrop> crop = {};
  Fit fit = Fit::kCover;   ///< kImage of a given size, without crop.
  PixelForm pixels = {};   ///< kImage: goes with `row`; see with_pixels().
  bool optional = false;   ///< Samples may lack the field: BatchOutput::present tells which do.
  bool truncate = false;   ///< kTokens: cut what is too long instead of refusing it.
  bool list_view = false;  ///< Ragged outputs: values stay where they were put; see list_output().
  /// kMask, kGeometry: the image output that this one follows.
  std::string image = {};
  std::int64_t border = 255;  ///< kMask: the label of what no pixel of the mask covers.
  /// kTokens: dtype of the elements in raw bytes, if not that of `row`.
  std::optional<DType> stored = {};
  /// Where the type of `row` comes from if not from the caller: `sample "KEY"`. For messages.
  std::string like = {};
};

/// Declares `name` as images resized to cover `width` × `height` pixels and cropped to the centre.
/// 0 × 0: images at their own size, which must be that of the first sample's image.
Output image_output(std::string name, std::uint32_t width, std::uint32_t height,
                    std::string field = {});
/// The same, but as `fit` says: stretched, or whole with a border of PixelForm's fill colour.
Output fitted_image_output(std::string name, std::uint32_t width, std::uint32_t height, Fit fit,
                           std::string field = {});
/// Declares `name` as random parts of images, resized to `width` × `height` pixels.
Output random_crop_output(std::string name, std::uint32_t width, std::uint32_t height,
                          RandomCrop crop = {}, std::string field = {});
/// Declares `name` as images at their own size, at most `max_width` × `max_height`, in the upper
/// left corner of padded rows; BatchOutput::sizes has height and width of each.
Output padded_image_output(std::string name, std::uint32_t max_width, std::uint32_t max_height,
                           Padding padding = {}, std::string field = {});
/// Returns `output`, of images, with pixels of that form: its channels, their order, normalised
/// floating-point numbers. Padded rows have their channels last.
Output with_pixels(Output output, const PixelForm& form);
/// Declares `name` as the labels in `field`, placed as the image of the same sample is by the
/// output `image`, which is declared before and not padded: the same part, mirrored or not, but
/// each row of the result has the labels nearest to it. Labels are what PNGs of one channel store
/// (palette indices, grey values of 1 to 16 bits) or the elements of an integer array height ×
/// width, as large as the image. Rows are height × width of `dtype`, an integer type; a label that
/// it cannot hold is an error. Beside a letterboxed mask is `border`: 255 is what segmentation code
/// ignores.
Output mask_output(std::string name, std::string field, std::string image,
                   DType dtype = DType::kUInt8, std::int64_t border = 255);
/// Declares `name` as what the output `image`, declared before and not padded, did with each image,
/// so that boxes and keypoints can follow: float32 rows of width and height of the image as it is
/// shown (EXIF orientation applied), then a b c d e f, with which a point (x, y) of it lies at
/// (a x + b y + c, d x + e y + f) of the output. Points count from the upper left corner; the
/// centre of the first pixel is (0.5, 0.5).
Output geometry_output(std::string name, std::string image);
/// Declares `name` as the class numbers of `field`.
Output class_output(std::string name = "label", std::string field = "cls");
/// Declares `name` as the numbers of `field`: decimal text, or an array of one element. A number
/// that `dtype` (an integer or floating-point type but float16) cannot hold is an error.
Output scalar_output(std::string name, std::string field, DType dtype = DType::kFloat32);
/// Declares `name` as the arrays in `field`; dtype and shape are those of the first sample.
Output array_output(std::string name, std::string field);
/// Declares `name` as rows of `length` integers: arrays of any integer type and one extent,
/// converted, or stored bytes, which are taken for little-endian elements of `dtype`.
Output tokens_output(std::string name, std::string field, std::uint64_t length,
                     DType dtype = DType::kInt64);
/// The same for sequences of different length, at most `max_length`; BatchOutput::sizes has the
/// length of each.
Output padded_tokens_output(std::string name, std::string field, std::uint64_t max_length,
                            Padding padding = {}, DType dtype = DType::kInt64);
/// The same for sequences of any length, not padded: the elements of value i are those from
/// BatchOutput::offsets[i] to offsets[i + 1].
Output ragged_tokens_output(std::string name, std::string field, DType dtype = DType::kInt64);
/// Declares `name` as the stored bytes of `field`, text for example; empty: of the first image
/// field.
Output bytes_output(std::string name, std::string field);
/// The same, but values lie in the batch in any order, with gaps: BatchOutput::offsets has each
/// one's begin and BatchOutput::lengths its length. Saves copying them together.
Output list_output(std::string name, std::string field);
/// Declares `name` as rows that `compute` fills.
Output computed_output(std::string name, ArrayType row, RowFunction compute);
/// Returns `output` for a field that samples may lack: absent rows are filled with the padding's
/// value, or zeros, or have no bytes.
Output optional_output(Output output);

}  // namespace shardmill
