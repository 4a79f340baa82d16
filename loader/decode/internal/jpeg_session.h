// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t.
#include <jerror.h>
#include <jpeglib.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>

#include <cstdint>
#include <string>

namespace shardmill::internal {

/// A libjpeg object with an error manager that turns errors, and warnings that mean damage, into
/// a jump back to guarded(). Only plain data: the jump passes no destructor.
struct JpegSession {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  std::uint32_t max_scans;
  bool allow_truncated;
  bool truncated;  ///< The file ended too early, and that is allowed.
  int failure;     ///< Code of the message that ended decoding.
  char message[JMSG_LENGTH_MAX];
};

/// Installs the error manager and creates the libjpeg object. False if that failed.
bool create_session(JpegSession& session, const DecodeOptions& options) noexcept;

/// Returns the failure that a session recorded, in shardmill's words.
Error session_error(const JpegSession& session);

/// Runs `work`, which may call libjpeg; false if libjpeg gave up. REQUIRES: nothing that `work`
/// creates has a destructor.
template <typename Work>
bool guarded(JpegSession& session, const Work& work) noexcept {
  if (setjmp(session.jump) != 0) return false;
  work();
  return true;
}

}  // namespace shardmill::internal
