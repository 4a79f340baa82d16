// SPDX-License-Identifier: Apache-2.0
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE and size_t.
#include <jpeglib.h>

#include <string>

#include "loader/decode/internal/encoders.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

namespace {

// From this quality on people look at colours closely: chroma is not halved.
constexpr int kFullChromaQuality = 96;

// Only plain data: libjpeg's way out of an error is a jump that passes no destructor.
struct EncodeSession {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  unsigned char* bytes;  // allocated by libjpeg with malloc()
  unsigned long size;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void stop(j_common_ptr info) {
  auto* session = static_cast<EncodeSession*>(info->client_data);
  info->err->format_message(info, session->message);
  std::longjmp(session->jump, 1);
}

void say_nothing(j_common_ptr, int) {}

bool compress(EncodeSession& session, const PixelView& pixels, int quality) noexcept {
  jpeg_compress_struct& info = session.info;
  if (setjmp(session.jump) != 0) return false;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &session.bytes, &session.size);
  info.image_width = pixels.width;
  info.image_height = pixels.height;
  info.input_components = static_cast<int>(pixels.channels);
  info.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  if (pixels.channels == 3 && quality >= kFullChromaQuality) {
    info.comp_info[0].h_samp_factor = 1;
    info.comp_info[0].v_samp_factor = 1;
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data + info.next_scanline * pixels.stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

void encode_jpeg(const PixelView& pixels, const EncodeOptions& options,
                 std::vector<std::byte>& out) {
  EncodeSession session{};
  session.info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = stop;
  session.errors.emit_message = say_nothing;
  session.info.client_data = &session;
  const bool done = compress(session, pixels, options.quality);
  jpeg_destroy_compress(&session.info);
  if (done) {
    const auto* bytes = reinterpret_cast<const std::byte*>(session.bytes);
    out.assign(bytes, bytes + session.size);
  }
  std::free(session.bytes);
  if (!done) {
    throw image_error(ErrorCode::kResourceExhausted,
                      "cannot make a JPEG: " + std::string(session.message));
  }
}

}  // namespace shardmill::internal
