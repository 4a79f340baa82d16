// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/stream.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "formats/internal/descriptor.h"

namespace shardmill {

namespace {

constexpr std::size_t kInput = 1 << 16;
constexpr std::size_t kMagicBytes = 6;

// Bytes of a descriptor, the first of which can be looked at in advance.
class RawInput {
 public:
  explicit RawInput(const std::filesystem::path& path) : name_(path.string()) {
    if (name_ == "-") {
      name_ = "standard input";
      fd_ = internal::Descriptor(dup(STDIN_FILENO));
    } else {
      fd_ = internal::Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!fd_.open()) throw system_error(errno, name_, "cannot open");
    (void)posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  const std::string& name() const noexcept { return name_; }

  // Lends the next bytes, none at the end.
  Bytes next() {
    if (peeked_) {
      peeked_ = false;
      return {buffer_.data(), used_};
    }
    used_ = fill(0);
    return {buffer_.data(), used_};
  }

  Bytes peek() {
    if (!peeked_) {
      used_ = 0;
      while (used_ < kMagicBytes) {
        const std::size_t got = fill(used_);
        if (got == 0) break;
        used_ += got;
      }
      peeked_ = true;
    }
    return {buffer_.data(), used_};
  }

 private:
  std::size_t fill(std::size_t at) {
    for (;;) {
      const ssize_t got = ::read(fd_.get(), buffer_.data() + at, buffer_.size() - at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw system_error(errno, name_, "cannot read");
      return static_cast<std::size_t>(got);
    }
  }

  std::string name_;
  internal::Descriptor fd_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kInput);
  std::size_t used_ = 0;
  bool peeked_ = false;
};

[[noreturn]] void damaged(const std::string& name, const std::string& cause) {
  throw Error(ErrorCode::kDataLoss, name, {}, cause, "copy the file again");
}

class PlainSource final : public Source {
 public:
  explicit PlainSource(std::unique_ptr<RawInput> input) : input_(std::move(input)) {}

  std::size_t read(std::span<std::byte> out) override {
    if (rest_.empty()) rest_ = input_->next();
    const std::size_t length = std::min(out.size(), rest_.size());
    if (length > 0) std::memcpy(out.data(), rest_.data(), length);
    rest_ = rest_.subspan(length);
    return length;
  }
  const std::string& name() const noexcept override { return input_->name(); }

 private:
  std::unique_ptr<RawInput> input_;
  Bytes rest_;
};

// zlib, because it compares the checksum at the end; libarchive does not.
class GzipSource final : public Source {
 public:
  explicit GzipSource(std::unique_ptr<RawInput> input) : input_(std::move(input)) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1 << 30));
    const uInt room = stream_.avail_out;
    while (!done_ && stream_.avail_out == room) {
      if (stream_.avail_in == 0) refill();
      if (at_end_ && stream_.avail_in == 0) {
        if (inside_) damaged(name(), "the gzip data are truncated");
        done_ = true;
        break;
      }
      step();
    }
    return room - stream_.avail_out;
  }
  const std::string& name() const noexcept override { return input_->name(); }

 private:
  void refill() {
    const Bytes bytes = input_->next();
    at_end_ = bytes.empty();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }

  void step() {
    if (!inside_) {
      // Files are padded with zeros on some media; all else must be one more member.
      while (first_done_ && stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in == 0) return;
      inflateReset(&stream_);
      inside_ = true;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inside_ = false;
      first_done_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      damaged(name(), std::string("damaged gzip data: ") +
                          (stream_.msg != nullptr ? stream_.msg : zError(result)));
    }
  }

  std::unique_ptr<RawInput> input_;
  z_stream stream_{};
  bool inside_ = false;  // a member has begun and not ended
  bool first_done_ = false;
  bool at_end_ = false;
  bool done_ = false;
};

struct ArchiveDeleter {
  void operator()(archive* a) const noexcept { archive_read_free(a); }
};

// Everything else through libarchive, as one nameless ("raw") entry.
class ArchiveSource final : public Source {
 public:
  explicit ArchiveSource(std::unique_ptr<RawInput> input)
      : input_(std::move(input)), archive_(archive_read_new()) {
    if (!archive_) throw std::bad_alloc();
    archive* const a = archive_.get();
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_lz4(a);
    archive_read_support_format_raw(a);
    archive_entry* entry = nullptr;
    if (archive_read_open(a, this, nullptr, &feed, nullptr) != ARCHIVE_OK ||
        archive_read_next_header(a, &entry) != ARCHIVE_OK) {
      fail();
    }
  }

  std::size_t read(std::span<std::byte> out) override {
    for (;;) {
      const la_ssize_t got = archive_read_data(archive_.get(), out.data(), out.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (got == ARCHIVE_RETRY) continue;
      fail();
    }
  }
  const std::string& name() const noexcept override { return input_->name(); }

 private:
  static la_ssize_t feed(archive* a, void* self, const void** out) {
    auto* const source = static_cast<ArchiveSource*>(self);
    try {
      const Bytes bytes = source->input_->next();
      *out = bytes.data();
      return static_cast<la_ssize_t>(bytes.size());
    } catch (const Error& error) {  // no exception may pass through C
      source->error_ = std::make_unique<ErrorInfo>(error.info());
      archive_set_error(a, EIO, "%s", error.info().cause.c_str());
      return ARCHIVE_FATAL;
    }
  }

  [[noreturn]] void fail() const {
    if (error_) throw Error(*error_);
    const char* const words = archive_error_string(archive_.get());
    std::string cause = words != nullptr ? words : "cannot unpack";
    if (cause.size() > 1 && cause[0] >= 'A' && cause[0] <= 'Z' && cause[1] >= 'a') cause[0] += 32;
    damaged(input_->name(), "damaged compressed data: " + cause);
  }

  std::unique_ptr<RawInput> input_;
  std::unique_ptr<ErrorInfo> error_;
  std::unique_ptr<archive, ArchiveDeleter> archive_;
};

}  // namespace

std::string_view compression_name(Bytes beginning) noexcept {
  const std::string_view text = as_text(beginning);
  if (text.starts_with("\x1f\x8b")) return "gzip";
  if (text.starts_with("\x28\xb5\x2f\xfd")) return "zstd";
  if (text.starts_with("BZh")) return "bzip2";
  if (text.starts_with(std::string_view("\xfd"
                                        "7zXZ\0",
                                        6))) {
    return "xz";
  }
  if (text.starts_with("\x04\x22\x4d\x18")) return "lz4";
  return {};
}

std::unique_ptr<Source> open_source(const std::filesystem::path& path) {
  auto input = std::make_unique<RawInput>(path);
  const std::string_view compression = compression_name(input->peek());
  if (compression.empty()) return std::make_unique<PlainSource>(std::move(input));
  if (compression == "gzip") return std::make_unique<GzipSource>(std::move(input));
  return std::make_unique<ArchiveSource>(std::move(input));
}

}  // namespace shardmill
