// SPDX-License-Identifier: Apache-2.0
// Encoded images for tests, and small helpers around them.
#pragma once

#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardmill::test {

/// RGB pixels with structure at several scales, different for each `seed`.
std::vector<std::uint8_t> texture(std::uint32_t width, std::uint32_t height, unsigned seed);

struct JpegLook {
  int components = 3;
  int luma_h = 2;  ///< Sampling factors of the first component; the others have 1.
  int luma_v = 2;
  bool progressive = false;
  bool arithmetic = false;
  int restart = 0;
  std::uint32_t orientation = 0;  ///< 0: no EXIF.
};
std::string make_jpeg(std::uint32_t width, std::uint32_t height, unsigned seed,
                      const JpegLook& look = {});
std::string make_png(std::uint32_t width, std::uint32_t height, unsigned seed);
std::string make_webp(std::uint32_t width, std::uint32_t height, unsigned seed, bool lossless);

/// An EXIF block (with its mark) that says `orientation`.
std::string make_exif(std::uint32_t orientation, bool big_endian);

/// Calls `work` and returns the Error it throws; one with the cause "nothing thrown" if it does
/// not.
template <typename Work>
ErrorInfo error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.info();
  }
  return {ErrorCode::kInternal, {}, {}, "nothing thrown", {}};
}

}  // namespace shardmill::test
