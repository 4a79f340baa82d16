// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>

#include <cstdint>
#include <memory>

#include "loader/decode/internal/jpeg_scan.h"
#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

struct JpegSession;

/// Decodes JPEG with libjpeg-turbo. One thread.
///
/// open(), then at most one that reads. Each image gets a libjpeg object of its own: tables that
/// one image defined are never there for the next.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads the header; `bytes` must stay until the pixels were read.
  void open(Bytes bytes, const DecodeOptions& options);
  /// What open() found; width and height after orientation.
  const ImageInfo& info() const noexcept { return info_; }
  Size stored() const noexcept { return stored_; }
  /// True if the image read last was cut off, which the options allow.
  bool truncated() const noexcept { return truncated_; }

  /// Decodes at full size, as stored, into `out` (stored().pixels() * 3 bytes): accurate integer
  /// DCT, fancy upsampling. With `grey`, all three are the luma that libjpeg gives.
  void read_rgb(std::uint8_t* out, bool grey = false);

  /// True if read_planes() can decode this image: grey, YCbCr or RGB with whole-numbered sampling.
  bool has_planes() const noexcept;
  /// Decodes into planes in `buffer`, before upsampling and colour conversion, reduced by 1, 2, 4
  /// or 8 as far as `request` allows.
  struct PlanesRequest {
    double across = 1;  ///< Pixels of the full-size image that become one.
    double down = 1;
    Box needed;              ///< What must be there, in pixels of the full-size image.
    bool luma_only = false;  ///< If it is luma and chroma that are stored, chroma may be missing.
  };
  Planes read_planes(const PlanesRequest& request, PixelBuffer& buffer);
  /// The two ways that read_planes() takes. The first, with shardmill's own decoder, is several
  /// times as fast, but does only what most files are: undamaged progressive JPEGs, and baseline
  /// ones with one scan. False, and nothing has happened, for all others.
  bool scan_planes(const PlanesRequest& request, PixelBuffer& buffer, Planes& out,
                   bool (*decode)(const Scan&) noexcept = &decode_scan);
  Planes libjpeg_planes(const PlanesRequest& request, PixelBuffer& buffer);

 private:
  void finish() noexcept;
  bool prepare_scan(Scan& scan);
  bool assign_tables(std::size_t c, ScanComponent& to);
  bool decode_scans(Scan& scan);
  void prepare_skipping(const Scan& scan);

  std::unique_ptr<JpegSession> session_;
  ImageInfo info_;
  Size stored_;
  Bytes bytes_;
  bool truncated_ = false;
  PixelBuffer row_, coefficients_;
  std::unique_ptr<HuffmanTable[]> tables_;  // of DC, then of AC
};

}  // namespace shardmill::internal
