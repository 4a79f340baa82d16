// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>
#include <shardmill/formats/stream.h>
#include <shardmill/formats/writer.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// What the loader and the tools need to know about a format.
struct FormatTraits {
  bool memory_mapped = true;           ///< Readers lend bytes from a map when access allows it.
  bool threads = true;                 ///< Several readers may work in threads of one process.
  std::uint32_t samples_per_read = 1;  ///< Neighbouring samples that one read brings in together.
};

/// A storage format: what one folder below formats/ provides. Stateless; one object per format
/// lives for the whole program, so all members may be called from any thread and process.
///
/// To add a format: copy a folder, implement a Reader, a Writer and this class, and add
/// `shardmill_add_format(NAME ...)` to its CMakeLists.txt and one add_subdirectory() line. The
/// conformance tests then run on it.
class Format {
 public:
  virtual ~Format() = default;

  /// Returns the name as typed after `--to`, e.g. "tar".
  virtual std::string_view name() const noexcept = 0;
  /// Returns the suffix of a shard's name with its dot, e.g. ".tar"; empty for folders.
  virtual std::string_view suffix() const noexcept = 0;
  virtual FormatTraits traits() const noexcept = 0;
  /// Returns the names of the layouts that a shard's path `PATH#as=LAYOUT` may ask for (`--as`)
  /// instead of the one that the content suggests.
  virtual std::span<const std::string_view> layouts() const noexcept { return {}; }

  /// True if `path` holds this format, judged by content, not by name. Never throws for a path
  /// that exists, whatever its bytes are.
  virtual bool recognises(const std::filesystem::path& path) const = 0;

  /// Does the expensive part of opening a shard once (header walk, key order, directory scan)
  /// and returns it as flat bytes without pointers, which any number of readers in any process
  /// share. The same bytes are the optional sidecar file. Throws kDataLoss for damage.
  virtual std::vector<std::byte> build_index(const std::filesystem::path& path,
                                             Access access) const = 0;

  /// Opens a shard with the index that build_index() made of it; `index` must outlive the
  /// reader and lie at an address that is a multiple of 8. Cheap: no scan.
  virtual std::unique_ptr<Reader> open(const std::filesystem::path& path,
                                       std::span<const std::byte> index, Access access) const = 0;

  /// Starts reading a shard that comes once, from front to back; `source` must outlive the stream.
  /// Throws kUnsupported if this format can only be read as files.
  virtual std::unique_ptr<Stream> stream(Source& source) const;
  /// Describes such a shard as describe() does a file. Throws kUnsupported, too.
  virtual std::string describe_stream(Source& source, bool hash) const;

  /// Starts writing a shard that will be called `path`.
  virtual std::unique_ptr<Writer> create(const std::filesystem::path& path,
                                         const WriteOptions& options) const = 0;

  /// Returns the file whose size and hash stand in a manifest for the shard `path` (itself, or
  /// data.mdb in an LMDB directory); empty for folders, which have none.
  virtual std::filesystem::path data_file(const std::filesystem::path& path) const { return path; }

  /// Describes a file of this format as a listing tool would, whether it holds samples or not:
  /// a JSON object (text) with `datasets`, `databases` or `members` as documented for
  /// `shardmill inspect`; with `hash` also SHA-256 sums. Throws for damage.
  virtual std::string describe(const std::filesystem::path& path, bool hash) const = 0;

  /// Returns name and version of the library that writes this format, e.g. "hdf5 1.10.8"; empty
  /// if it is shardmill itself.
  virtual std::string library() const { return {}; }
};

/// Returns every format built into this program, sorted by name.
std::span<const Format* const> all_formats();

/// Returns the format called `name`; throws kInvalidArgument listing the known names.
const Format& find_format(std::string_view name);

/// A reader together with the index it needs: for reading one shard in one process.
class OpenShard {
 public:
  /// Recognises, indexes and opens `path`. Throws kUnsupported if no format recognises it.
  explicit OpenShard(const std::filesystem::path& path, Access access = Access::kAuto);
  OpenShard(const Format& format, const std::filesystem::path& path, Access access = Access::kAuto);

  const Format& format() const noexcept { return *format_; }
  Reader& reader() noexcept { return *reader_; }

 private:
  const Format* format_;
  std::vector<std::byte> index_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace shardmill
