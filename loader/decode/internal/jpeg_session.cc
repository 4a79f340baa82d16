// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/jpeg_session.h"

#include <cctype>
#include <string_view>

namespace shardmill::internal {

namespace {

constexpr int kTooManyScans = -1;

JpegSession& session_of(j_common_ptr info) noexcept {
  return *static_cast<JpegSession*>(info->client_data);
}

[[noreturn]] void give_up(j_common_ptr info) {
  JpegSession& session = session_of(info);
  session.failure = info->err->msg_code;
  info->err->format_message(info, session.message);
  std::longjmp(session.jump, 1);
}

// Some warnings only say that a file is untidy; the picture is whole and other programs show it.
bool is_harmless(const jpeg_error_mgr& errors) noexcept {
  switch (errors.msg_code) {
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    case JWRN_EXTRANEOUS_DATA: {
      // Between segments, or after the last block: filler. Before a restart marker blocks are lost.
      const int marker = errors.msg_parm.i[1];
      return marker < JPEG_RST0 || marker > JPEG_RST0 + 7;
    }
    default:
      return false;
  }
}

// Behind the end of a file libjpeg sees a mark of the end, which then comes too early.
bool is_allowed(JpegSession& session, int code) noexcept {
  if (!session.allow_truncated) return false;
  if (code == JWRN_JPEG_EOF) session.truncated = true;
  return session.truncated && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER);
}

void emit_message(j_common_ptr info, int level) {
  if (level >= 0 || is_harmless(*info->err)) return;
  if (!is_allowed(session_of(info), info->err->msg_code)) give_up(info);
}

void check_progress(j_common_ptr info) {
  JpegSession& session = session_of(info);
  const int scan = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scan < 0 || static_cast<std::uint32_t>(scan) <= session.max_scans) return;
  session.failure = kTooManyScans;
  std::longjmp(session.jump, 1);
}

bool is_unsupported(int code) noexcept {
  switch (code) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
    case JERR_WIDTH_OVERFLOW:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool create_session(JpegSession& session, const DecodeOptions& options) noexcept {
  session.info = {};
  session.max_scans = options.max_scans;
  session.allow_truncated = options.allow_truncated;
  session.truncated = false;
  session.failure = 0;
  session.message[0] = '\0';
  session.info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = give_up;
  session.errors.emit_message = emit_message;
  session.info.client_data = &session;
  return guarded(session, [&session] {
    jpeg_create_decompress(&session.info);
    session.progress = {};
    session.progress.progress_monitor = check_progress;
    session.info.progress = &session.progress;
  });
}

Error session_error(const JpegSession& session) {
  if (session.failure == kTooManyScans) {
    return Error(ErrorCode::kResourceExhausted, {}, {},
                 "too many scans: a progressive JPEG of more than " +
                     std::to_string(session.max_scans) + " scans");
  }
  constexpr std::string_view kPrefix = "Corrupt JPEG data: ";
  std::string_view words = session.message;
  if (words.starts_with(kPrefix)) words.remove_prefix(kPrefix.size());
  const std::string text(words);
  switch (session.failure) {
    case JERR_OUT_OF_MEMORY:
      return Error(ErrorCode::kResourceExhausted, {}, {}, "out of memory for a JPEG: " + text);
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
    case JERR_INPUT_EMPTY:
      return Error(ErrorCode::kDataLoss, {}, {}, "truncated JPEG: " + text);
    default:
      break;
  }
  if (is_unsupported(session.failure)) {
    return Error(ErrorCode::kUnsupported, {}, {}, "unsupported JPEG: " + text);
  }
  return Error(ErrorCode::kDataLoss, {}, {}, "corrupt JPEG: " + text);
}

}  // namespace shardmill::internal
