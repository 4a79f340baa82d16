// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace shardmill::lmdb {

/// What the entries of an environment mean. Values are part of index files: append only.
enum class Layout : std::uint32_t {
  kShardmill = 0,  ///< Numbered MessagePack maps and `__shardmill__`.
  kPlain = 1,      ///< Any names with any bytes.
  kCaffe = 2,      ///< Any names with `Datum`.
  kText = 3,       ///< `image-000000001`, `label-000000001` …, `num-samples` (STR, MMOCR).
  kMeta = 4,       ///< Names with images, and meta_info.txt beside (BasicSR, MMagic).
  kLsun = 5,       ///< Names of 40 hexadecimal digits with images.
};
inline constexpr std::uint32_t kLayouts = 6;

/// Returns the layout's name, as `inspect` shows it and `--as` takes it.
std::string_view layout_name(Layout layout) noexcept;
/// Returns the layout called `name`.
std::optional<Layout> layout_from_name(std::string_view name) noexcept;
/// The layouts that may be asked for.
inline constexpr std::array<std::string_view, 3> kForcedLayouts = {"caffe", "plain", "str"};

/// Returns which field a value is by its first bytes: jpg, png, webp, else bin.
std::string_view payload_field(Bytes start) noexcept;

/// True if a value looks like one that Python's pickle or pyarrow wrote.
bool looks_pickled(Bytes value) noexcept;

/// Parses `WORD-000000001`; 0 if `key` is none of these.
std::uint64_t text_number(std::string_view word, std::string_view key) noexcept;
/// Returns that key. REQUIRES: number < 10^9.
std::string text_key(std::string_view word, std::uint64_t number);

/// True if `key` is an image's name in LSUN: 40 hexadecimal digits.
bool is_lsun_key(std::string_view key) noexcept;

/// A key of convert_imageset, `00000000_PATH.EXT`, as a sample's key: without the extension, which
/// is that of the file the image once was. Others are returned as they are.
std::string_view caffe_key(std::string_view key) noexcept;

/// Returns the number of images that the meta_info.txt beside a data.mdb lists; nothing if there is
/// no such file or its first line is not `NAME.png (H,W,C) …`.
std::optional<std::uint64_t> listed_images(const std::filesystem::path& data_file);

}  // namespace shardmill::lmdb
