// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace shardmill {

/// What kind of failure it was; what a caller may branch on.
enum class ErrorCode : std::uint8_t {
  kNotFound,           ///< A path, sample, field or shard does not exist.
  kInvalidArgument,    ///< An option or argument is wrong; nothing was touched.
  kDataLoss,           ///< Stored bytes are damaged, cut off or contradict each other.
  kUnsupported,        ///< Valid, but beyond what this format or build can do.
  kResourceExhausted,  ///< Disk, memory, descriptors or a stated budget ran out.
  kIo,                 ///< The operating system refused a read or a write.
  kInternal,           ///< A fault of shardmill itself.
};

/// Returns the stable lower-case name of `code`, e.g. "data_loss".
std::string_view error_code_name(ErrorCode code) noexcept;

/// Returns the code that `name` (see error_code_name) stands for; kInternal for an unknown name.
ErrorCode error_code_from_name(std::string_view name) noexcept;

/// The plain value behind an Error: copyable, and the same on both sides of a process boundary.
struct ErrorInfo {
  ErrorCode code = ErrorCode::kInternal;
  std::string path;   ///< The file, directory, option or dataset concerned.
  std::string place;  ///< Where in it: `sample "n014" field "jpg"`, `offset 1536`; may be empty.
  std::string cause;  ///< What failed and the library's own words for it; lower case, no full stop.
  std::string remedy;  ///< What the user can do; may be empty.
};

/// The one exception type of shardmill. Thrown where the cause is known, caught only where
/// something is decided: a skip policy, a worker's boundary, the edge of the command line.
class Error : public std::exception {
 public:
  explicit Error(ErrorInfo info);
  Error(ErrorCode code, std::string path, std::string place, std::string cause,
        std::string remedy = {});

  const ErrorInfo& info() const noexcept { return info_; }
  ErrorCode code() const noexcept { return info_.code; }

  /// Returns `PATH: PLACE: CAUSE; REMEDY` on one line, control characters escaped.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorInfo info_;
  std::string text_;
};

/// Returns an Error for a failed system call: `what` and the words of `error_number`. ENOENT
/// becomes kNotFound, ENOSPC/EDQUOT/EMFILE/ENFILE/ENOMEM kResourceExhausted, all else kIo.
Error system_error(int error_number, std::string path, std::string what, std::string remedy = {});

/// Returns `text` with control characters, backslash and bytes that are not UTF-8 as `\xNN`, so
/// that a key or name of any bytes can be printed on one line and put into JSON.
std::string escape(std::string_view text);

/// Returns the `place` of a sample and, unless empty, its field: `sample "KEY" field "jpg"`.
std::string sample_place(std::string_view key, std::string_view field = {});

/// The two parts of a `place`, unescaped; empty where it does not begin as sample_place() writes.
struct SamplePlace {
  std::string key;
  std::string field;
};
SamplePlace parse_sample_place(std::string_view place);

namespace internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}

}  // namespace shardmill

/// Aborts with file and line if `condition`, a precondition stated in a header, does not hold.
#define SHARDMILL_CHECK(condition) \
  ((condition) ? (void)0 : ::shardmill::internal::check_failed(#condition, __FILE__, __LINE__))
