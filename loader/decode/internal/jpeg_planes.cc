// SPDX-License-Identifier: Apache-2.0
// JPEG into planes, as much of it as is needed: with our own decoder, or with libjpeg.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "loader/decode/internal/inverse_dct.h"
#include "loader/decode/internal/jpeg.h"
#include "loader/decode/internal/jpeg_progressive.h"
#include "loader/decode/internal/jpeg_session.h"

namespace shardmill::internal {

namespace {

// A file that ends as it should was not cut off, so that decoding may stop above its last row.
bool ends_properly(std::string_view text) noexcept { return text.ends_with("\xff\xd9"); }

std::uint32_t dct_size(const jpeg_component_info& component) noexcept {
#if JPEG_LIB_VERSION >= 70
  return static_cast<std::uint32_t>(component.DCT_v_scaled_size);
#else
  return static_cast<std::uint32_t>(component.DCT_scaled_size);
#endif
}

std::uint32_t min_dct_size(const jpeg_decompress_struct& info) noexcept {
#if JPEG_LIB_VERSION >= 70
  return static_cast<std::uint32_t>(info.min_DCT_v_scaled_size);
#else
  return static_cast<std::uint32_t>(info.min_DCT_scaled_size);
#endif
}

PlaneColors plane_colors(J_COLOR_SPACE space) noexcept {
  if (space == JCS_GRAYSCALE) return PlaneColors::kGrey;
  return space == JCS_RGB ? PlaneColors::kRgb : PlaneColors::kYccFullRange;
}

// Above this the product with a coefficient might not fit.
constexpr std::int32_t kMaxStep = 4095;

// More coefficients than these are not kept.
constexpr std::size_t kKeepBytes = std::size_t{64} << 20;

// Looks at more bits save time for every byte of a scan, but take it for making the tables.
int look_bits_for(std::size_t bytes) noexcept {
  return bytes < 8192 ? 9 : bytes < 24576 ? 10 : HuffmanTable::kLookBits;
}

// By how much an image can be reduced when `ratio` of its pixels become one.
std::uint32_t reduction_for(double ratio) noexcept {
  std::uint32_t reduction = 1;
  while (reduction < DCTSIZE && ratio >= 2 * reduction) reduction *= 2;
  return reduction;
}

// The MCUs along one side of an image: those needed, from `first` up to `last`, of `count`.
struct Range {
  std::uint32_t count = 0, first = 0, last = 0;
  std::size_t size() const noexcept { return last - first; }
};

Range needed_units(double low, double high, std::uint32_t size, std::uint32_t blocks) noexcept {
  const std::uint32_t unit = blocks * DCTSIZE;
  Range range;
  range.count = (size - 1) / unit + 1;
  range.first = std::min(static_cast<std::uint32_t>(std::max(low, 0.0)) / unit, range.count - 1);
  const double last = std::ceil(std::clamp(high, 1.0, double{1} * size) / unit);
  range.last = std::clamp(static_cast<std::uint32_t>(last), range.first + 1, range.count);
  return range;
}

// Where a plane lies along one side: `samples` a unit of `range`, `all` over the whole image.
void place_plane(const Range& range, std::uint32_t samples, double all, std::uint32_t& size,
                 double& offset) noexcept {
  const std::uint32_t begin = range.first * samples;
  const auto end = static_cast<std::uint32_t>(std::ceil(all));
  size = std::min(range.last * samples, std::max(end, begin + 1)) - begin;
  offset = -double{1} * begin;
}

constexpr std::size_t kMaxPlaneRows = MAX_SAMP_FACTOR * 2 * DCTSIZE;

// Where libjpeg writes one row of blocks of each plane.
struct RawRows {
  JSAMPROW rows[3][kMaxPlaneRows];
  JSAMPARRAY planes[3];
};

void point_rows(RawRows& raw, const jpeg_decompress_struct& info, std::uint8_t* const* starts,
                const std::size_t* strides, std::uint32_t block_row) {
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    const std::size_t rows =
        static_cast<std::size_t>(component.v_samp_factor) * dct_size(component);
    for (std::size_t y = 0; y < rows; ++y) {
      raw.rows[c][y] = starts[c] + (block_row * rows + y) * strides[c];
    }
    raw.planes[c] = raw.rows[c];
  }
}

}  // namespace

bool JpegDecoder::has_planes() const noexcept {
  const jpeg_decompress_struct& info = session_->info;
  const J_COLOR_SPACE space = info.jpeg_color_space;
  if (space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB) return false;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    if (info.max_h_samp_factor % component.h_samp_factor != 0) return false;
    if (info.max_v_samp_factor % component.v_samp_factor != 0) return false;
  }
  return true;
}

Planes JpegDecoder::read_planes(const PlanesRequest& request, PixelBuffer& buffer) {
  Planes out;
  // Without vector instructions for the transforms libjpeg, which has them for more processors, is
  // the faster one.
  if (best_transforms().fast && scan_planes(request, buffer, out)) return out;
  return libjpeg_planes(request, buffer);
}

// Tables for passing over blocks, where some are passed over.
void JpegDecoder::prepare_skipping(const Scan& scan) {
  bool skips = scan.first_row > 0 || scan.first_column > 0 || scan.last_column < scan.columns;
  for (std::size_t c = 0; c < scan.count; ++c) {
    skips |= !scan.components[c].needed || scan.components[c].size < DCTSIZE;
  }
  if (!skips) return;
  for (std::size_t i = NUM_HUFF_TBLS; i < 2 * NUM_HUFF_TBLS; ++i) {
    for (std::size_t c = 0; c < scan.count; ++c) {
      if (scan.components[c].ac == &tables_[i]) tables_[i].prepare_skipping();
    }
  }
}

// The tables of a baseline component.
bool JpegDecoder::assign_tables(std::size_t c, ScanComponent& to) {
  const jpeg_decompress_struct& info = session_->info;
  const jpeg_component_info& component = info.comp_info[c];
  const auto dc_number = static_cast<std::size_t>(component.dc_tbl_no & 3);
  const auto ac_number = static_cast<std::size_t>(component.ac_tbl_no & 3);
  const JHUFF_TBL* const dc = info.dc_huff_tbl_ptrs[dc_number];
  const JHUFF_TBL* const ac = info.ac_huff_tbl_ptrs[ac_number];
  if (info.cur_comp_info[c] != &component || !dc || !ac) return false;
  const int look_bits = look_bits_for(info.src->bytes_in_buffer);
  HuffmanTable& dc_table = tables_[dc_number];
  HuffmanTable& ac_table = tables_[NUM_HUFF_TBLS + ac_number];
  to.dc = &dc_table;
  to.ac = &ac_table;
  return dc_table.assign(dc->bits, dc->huffval, true, look_bits) &&
         ac_table.assign(ac->bits, ac->huffval, false, look_bits);
}

// Parses and transforms all scans of a progressive JPEG.
bool JpegDecoder::decode_scans(Scan& scan) {
  const jpeg_decompress_struct& info = session_->info;
  ProgressiveScans scans;
  scans.max_scans = session_->max_scans;
  scans.tables = tables_.get();
  scan.begin = reinterpret_cast<const std::uint8_t*>(bytes_.data());
  std::size_t offsets[3] = {};
  std::size_t total = 0;
  for (std::size_t c = 0; c < scan.count; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    const ScanComponent& of = scan.components[c];
    scans.ids[c] = static_cast<std::uint8_t>(component.component_id);
    scans.columns[c] = component.width_in_blocks;
    scans.rows[c] = component.height_in_blocks;
    offsets[c] = total;
    total += std::size_t{scan.columns} * of.across * scan.rows * of.down * DCTSIZE2;
  }
  const std::size_t mask_bytes = total / DCTSIZE2 * sizeof(std::uint64_t);
  const std::size_t bytes = mask_bytes + total * sizeof(std::int16_t);
  std::uint8_t* const data = coefficients_.reserve(bytes);
  std::memset(data, 0, bytes);
  for (std::size_t c = 0; c < scan.count; ++c) {
    scans.masks[c] = reinterpret_cast<std::uint64_t*>(data) + offsets[c] / DCTSIZE2;
    scans.coefficients[c] = reinterpret_cast<std::int16_t*>(data + mask_bytes) + offsets[c];
  }
  const bool decoded = decode_progressive(scan, scans);
  coefficients_.trim(kKeepBytes);
  return decoded;
}

// Describes the only scan of a baseline JPEG, but for where its samples go. False for all others.
bool JpegDecoder::prepare_scan(Scan& scan) {
  const jpeg_decompress_struct& info = session_->info;
  if (!has_planes() || info.arith_code || info.data_precision != 8 ||
      !ends_properly(as_text(bytes_))) {
    return false;
  }
  if (!info.progressive_mode && (info.comps_in_scan != info.num_components || info.Ss != 0 ||
                                 info.Se != DCTSIZE2 - 1 || info.Ah != 0 || info.Al != 0)) {
    return false;
  }
  if (tables_ == nullptr) tables_ = std::make_unique<HuffmanTable[]>(2 * NUM_HUFF_TBLS);
  scan.count = static_cast<std::size_t>(info.num_components);
  for (std::size_t c = 0; c < scan.count; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    const JQUANT_TBL* const steps = info.quant_tbl_ptrs[component.quant_tbl_no & 3];
    if (!steps) return false;
    ScanComponent& to = scan.components[c];
    if (!info.progressive_mode && !assign_tables(c, to)) return false;
    // One component alone is stored block by block, whatever its sampling factors.
    to.across = scan.count == 1 ? 1 : static_cast<std::uint32_t>(component.h_samp_factor);
    to.down = scan.count == 1 ? 1 : static_cast<std::uint32_t>(component.v_samp_factor);
    for (std::size_t k = 0; k < to.steps.size(); ++k) {
      const std::uint32_t order = kBlockOrder[k];
      const std::int32_t step = steps->quantval[(order & 7) * DCTSIZE + order / DCTSIZE];
      if (step > kMaxStep) return false;
      to.steps[k] = step << kDctFraction;
    }
  }
  scan.begin = info.src->next_input_byte;
  scan.end = scan.begin + info.src->bytes_in_buffer;
  scan.restart_interval = info.restart_interval;
  return true;
}

bool JpegDecoder::scan_planes(const PlanesRequest& request, PixelBuffer& buffer, Planes& out,
                              bool (*decode)(const Scan&) noexcept) {
  const Box& needed = request.needed;
  Scan scan;
  if (!prepare_scan(scan)) return false;
  std::uint32_t most_across = 1, most_down = 1;
  for (std::size_t c = 0; c < scan.count; ++c) {
    most_across = std::max(most_across, scan.components[c].across);
    most_down = std::max(most_down, scan.components[c].down);
  }
  const Range columns = needed_units(needed.left, needed.right, stored_.width, most_across);
  const Range rows = needed_units(needed.top, needed.bottom, stored_.height, most_down);
  scan.columns = columns.count, scan.first_column = columns.first, scan.last_column = columns.last;
  scan.rows = rows.count, scan.first_row = rows.first, scan.last_row = rows.last;
  out.colors = plane_colors(session_->info.jpeg_color_space);
  if (request.luma_only && out.colors == PlaneColors::kYccFullRange) {
    out.colors = PlaneColors::kGrey;
  }
  std::size_t offsets[3] = {};
  std::size_t total = 0;
  for (std::size_t c = 0; c < scan.count; ++c) {
    scan.components[c].needed = c < out.count();
    if (!scan.components[c].needed) continue;
    ScanComponent& component = scan.components[c];
    const double x = double{1} * component.across / most_across;
    const double y = double{1} * component.down / most_down;
    component.size = DCTSIZE / reduction_for(std::min(request.across * x, request.down * y));
    Plane& plane = out.planes[c];
    const double size = double{1} * component.size / DCTSIZE;
    plane.scale_x = size * x;
    plane.scale_y = size * y;
    plane.blur = component.size < DCTSIZE ? 1 : 0;
    place_plane(columns, component.size * component.across, stored_.width * plane.scale_x,
                plane.width, plane.offset_x);
    place_plane(rows, component.size * component.down, stored_.height * plane.scale_y, plane.height,
                plane.offset_y);
    const std::size_t unit = std::size_t{2} * component.size;  // an even number of blocks
    plane.stride = (columns.size() * component.size * component.across + unit - 1) / unit * unit;
    component.stride = plane.stride;
    offsets[c] = total;
    total += plane.stride * rows.size() * component.size * component.down;
  }
  std::uint8_t* const data = buffer.reserve(total);
  for (std::size_t c = 0; c < out.count(); ++c) {
    out.planes[c].data = scan.components[c].out = data + offsets[c];
  }
  if (session_->info.progressive_mode) {
    if (!decode_scans(scan)) return false;
  } else {
    prepare_skipping(scan);
    if (!decode(scan)) return false;
  }
  finish();
  return true;
}

Planes JpegDecoder::libjpeg_planes(const PlanesRequest& request, PixelBuffer& buffer) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  if (!guarded(session, [&] {
        info.out_color_space = info.jpeg_color_space;
        info.raw_data_out = TRUE;
        info.dct_method = JDCT_ISLOW;
        info.scale_num = 1;
        info.scale_denom = reduction_for(std::min(request.across, request.down));
        jpeg_start_decompress(&info);
      })) {
    throw session_error(session);
  }

  Planes out;
  out.colors = plane_colors(info.jpeg_color_space);
  const bool luma_only = request.luma_only && out.colors == PlaneColors::kYccFullRange;
  if (luma_only) out.colors = PlaneColors::kGrey;
  std::uint8_t* starts[3] = {};
  std::size_t strides[3] = {};
  std::size_t offsets[3] = {};
  std::size_t total = 0;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    strides[c] = std::size_t{component.width_in_blocks} * dct_size(component);
    offsets[c] = total;
    total += strides[c] * info.total_iMCU_rows * static_cast<std::size_t>(component.v_samp_factor) *
             dct_size(component);
  }
  std::uint8_t* data = buffer.reserve(total);
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    starts[c] = data + offsets[c];
    Plane& plane = out.planes[static_cast<std::size_t>(c)];
    plane.data = starts[c];
    plane.stride = strides[c];
    plane.width = component.downsampled_width;
    plane.height = component.downsampled_height;
    const double size = double{1} * dct_size(component) / DCTSIZE;
    plane.scale_x = size * component.h_samp_factor / info.max_h_samp_factor;
    plane.scale_y = size * component.v_samp_factor / info.max_v_samp_factor;
    plane.blur = dct_size(component) < DCTSIZE ? 1 : 0;
  }

  const std::uint32_t block_lines =
      static_cast<std::uint32_t>(info.max_v_samp_factor) * min_dct_size(info);
  const Box& needed = request.needed;
  const double lines_needed = std::ceil(needed.bottom * min_dct_size(info) / DCTSIZE);
  const auto first_line = static_cast<std::uint32_t>(
      std::max(std::floor(needed.top * min_dct_size(info) / DCTSIZE), 0.0));
  const bool may_stop = ends_properly(as_text(bytes_)) && lines_needed < info.output_height;
  const std::uint32_t lines =
      may_stop ? static_cast<std::uint32_t>(std::max(lines_needed, 1.0)) : info.output_height;
  RawRows raw;
  const bool done = guarded(session, [&] {
    for (std::uint32_t block_row = 0; info.output_scanline < lines; ++block_row) {
      // Libjpeg parses components that are not needed, but does not transform them.
      const bool is_needed = info.output_scanline + block_lines > first_line;
      for (int c = 0; c < info.num_components; ++c) {
        info.comp_info[c].component_needed = is_needed && (c == 0 || !luma_only) ? TRUE : FALSE;
      }
      point_rows(raw, info, starts, strides, block_row);
      jpeg_read_raw_data(&info, raw.planes, block_lines);
    }
    if (!may_stop) jpeg_finish_decompress(&info);
  });
  if (!done) throw session_error(session);
  finish();
  return out;
}

}  // namespace shardmill::internal
