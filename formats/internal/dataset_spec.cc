// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/dataset_spec.h"

#include <fcntl.h>
#include <glob.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "formats/internal/shard_path.h"
#include "formats/internal/stream_spec.h"
#include "formats/internal/token_format.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxExpanded = 1'000'000;  // shards one argument may stand for

// What `--as` or `#as=` asks for.
struct Wish {
  const Format* format = nullptr;  // this one alone
  bool shards = false;             // a directory's shards, not its manifest or raw files
  bool any() const { return format != nullptr || shards; }
};

bool shard_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(file_of_shard(path), error);
}

const Format& recognise(const fs::path& path, const Wish& wish = {}) {
  for (const Format* format : all_formats()) {
    if (wish.format != nullptr && wish.format != format) continue;
    if (format->recognises(path)) return *format;
  }
  if (wish.format != nullptr) {
    throw Error(ErrorCode::kUnsupported, path.string(), {},
                "is not " + std::string(wish.format->name()), "leave out --as");
  }
  const ShardPath parts = split_shard_path(path);
  if (!parts.inner.empty()) {
    throw Error(ErrorCode::kUnsupported, path.string(), {},
                "only LMDB and HDF5 files have parts to choose with #",
                "leave out what follows the #");
  }
  if (const std::string_view compression = compression_of(path); !compression.empty()) {
    throw Error(ErrorCode::kUnsupported, path.string(), {},
                "is compressed (" + std::string(compression) +
                    "): samples in it cannot be read by number, only in order",
                unpacking_remedy(path));
  }
  throw Error(ErrorCode::kUnsupported, path.string(), {},
              "no storage format recognises this file by its content",
              "give a tar, LMDB or HDF5 file, a folder, or a manifest.json");
}

bool looks_like_shard(const fs::path& path, const Wish& wish) {
  const std::string suffix = path.extension().string();
  if (wish.format != nullptr && wish.format->name() != "hdf5")
    return suffix == wish.format->suffix();
  if (wish.format != nullptr) return suffix == ".h5" || suffix == ".hdf5";
  return suffix == ".tar" || suffix == ".lmdb" || suffix == ".h5" || suffix == ".hdf5" ||
         has_compressed_tar_name(path);
}

// Sample hashes and indices, of ours and of others, that stand beside shards.
bool is_about_shards(const fs::path& path) {
  const std::string suffix = path.extension().string();
  return suffix == ".sum" || suffix == ".index" || suffix == ".idx";
}

std::vector<fs::path> glob_paths(const std::string& spec) {
  glob_t found{};
  std::vector<fs::path> paths;
  const std::size_t mark = spec.find('#');
  const std::string pattern = spec.substr(0, mark);
  const std::string inner = mark == std::string::npos ? "" : spec.substr(mark);
  // GLOB_NOSORT and an own sort: glob's own order depends on the locale.
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      paths.emplace_back(found.gl_pathv[i] + inner);
    }
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return paths;
}

fs::path absolute_shard(const fs::path& path) {
  ShardPath parts = split_shard_path(path);
  parts.file = fs::absolute(parts.file).lexically_normal();
  return join_shard_path(parts);
}

void take_shards(ResolvedSpec& out, std::vector<fs::path> paths, const Wish& wish) {
  for (const fs::path& path : paths) {
    if (!shard_exists(path)) {
      throw Error(ErrorCode::kNotFound, path.string(), {}, "no such shard");
    }
    const Format& format = recognise(path, wish);
    if (out.format != nullptr && out.format != &format) {
      throw Error(ErrorCode::kUnsupported, path.string(), {},
                  "is " + std::string(format.name()) + ", the shards before it are " +
                      std::string(out.format->name()),
                  "give shards of one format");
    }
    out.format = &format;
    out.shards.push_back(absolute_shard(path));
  }
}

std::vector<fs::path> manifest_shards(const Manifest& manifest, const Format& format,
                                      const fs::path& file) {
  std::vector<fs::path> paths;
  for (const ManifestShard& shard : manifest.shards) {
    if (shard.url.find("://") != std::string::npos) {
      throw Error(ErrorCode::kUnsupported, file.string(), {},
                  "lists the remote shard " + escape(shard.url),
                  "copy the shards to a disk, and list them with shardmill index");
    }
    const fs::path directory = file.parent_path();
    const fs::path path = shard.url == "." ? directory : (directory / shard.url).lexically_normal();
    const fs::path data = format.data_file(path);
    std::error_code error;
    if (!fs::exists(data.empty() ? path : data, error)) {
      throw Error(ErrorCode::kNotFound, path.string(), {},
                  "shard listed in " + file.string() + " is missing",
                  "copy it again, or convert the data again");
    }
    paths.push_back(path);
  }
  return paths;
}

void take_manifest(ResolvedSpec& out, const fs::path& file) {
  out.manifest = load_manifest(file);
  out.manifest_path = fs::absolute(file).lexically_normal();
  out.format = &find_format(out.manifest->format);
  out.reason = "manifest " + file.filename().string();
  out.shards = manifest_shards(*out.manifest, *out.format, out.manifest_path);
  for (const Manifest& joined : out.manifest->joined) {
    const Format& format = find_format(joined.format);
    out.joined.push_back({&format, manifest_shards(joined, format, out.manifest_path)});
  }
}

void take_directory(ResolvedSpec& out, const fs::path& directory, const Wish& wish) {
  const bool raw = wish.format != nullptr && wish.format->suffix().empty();
  if (!wish.any() && fs::exists(directory / kManifestName)) {
    return take_manifest(out, directory / kManifestName);
  }
  if (!raw && !wish.shards && fs::exists(directory / "data.mdb")) {
    out.reason = "directory with an LMDB environment (data.mdb)";
    return take_shards(out, {directory}, wish);
  }
  std::vector<fs::path> shards;
  std::size_t others = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (raw) break;
    if (entry.path().filename().string().starts_with(".")) continue;
    if (looks_like_shard(entry.path(), wish)) {
      shards.push_back(entry.path());
    } else if (!is_about_shards(entry.path())) {
      ++others;
    }
  }
  if (shards.empty()) {
    if (wish.any() && !raw) {
      throw Error(ErrorCode::kNotFound, directory.string(), {}, "holds no such shards",
                  "leave out --as");
    }
    out.reason =
        raw ? "directory of raw files" : "directory without manifest and shards: raw files";
    return take_shards(out, {directory}, wish);
  }
  std::sort(shards.begin(), shards.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  out.reason = "directory with " + std::to_string(shards.size()) + " shards, no manifest";
  if (wish.any()) out.reason = "directory with " + std::to_string(shards.size()) + " shards";
  if (others > 0) {
    out.warnings.push_back(std::to_string(others) + " other files beside the shards are ignored");
  }
  take_shards(out, shards, wish);
}

// Says what `kind` may be, and which format understands it.
Wish parse_kind(const std::string& kind, bool& is_layout) {
  std::string kinds = "shards";
  is_layout = false;
  if (kind == "shards") return {nullptr, true};
  for (const Format* format : all_formats()) {
    if (kind == format->name()) return {format, false};
    kinds += ", " + std::string(format->name());
    for (const std::string_view layout : format->layouts()) {
      if (kind == layout) {
        is_layout = true;
        return {format, false};
      }
      kinds += ", " + std::string(layout);
    }
  }
  throw Error(ErrorCode::kInvalidArgument, {}, {}, "unknown kind of data \"" + escape(kind) + '"',
              "--as takes " + kinds);
}

bool is_manifest_file(const fs::path& path) {
  return path.extension() == ".json" && fs::is_regular_file(path);
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view spec) {
  const std::size_t open = spec.find('{');
  const std::size_t dots = spec.find("..", open == std::string_view::npos ? 0 : open);
  const std::size_t close = spec.find('}', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || dots == std::string_view::npos ||
      close == std::string_view::npos || dots > close) {
    return {std::string(spec)};
  }
  const auto number = [](std::string_view text) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const std::string_view low_text = spec.substr(open + 1, dots - open - 1);
  const auto low = number(low_text);
  const auto high = number(spec.substr(dots + 2, close - dots - 2));
  if (!low || !high) return {std::string(spec)};
  if (*high < *low || *high - *low >= kMaxExpanded) {
    throw Error(ErrorCode::kInvalidArgument, std::string(spec), {}, "bad brace range",
                "write {first..last} with first <= last");
  }
  std::vector<std::string> expanded;
  for (const std::string& rest : expand_braces(spec.substr(close + 1))) {
    for (std::uint64_t value = *low; value <= *high; ++value) {
      std::string digits = std::to_string(value);
      if (digits.size() < low_text.size()) digits.insert(0, low_text.size() - digits.size(), '0');
      expanded.push_back(std::string(spec.substr(0, open)) + digits + rest);
    }
  }
  return expanded;
}

std::vector<fs::path> expand_pattern(std::string_view spec) {
  const auto expanded = expand_braces(spec);
  if (expanded.size() > 1 || expanded[0] != spec) return {expanded.begin(), expanded.end()};
  if (spec.find_first_of("*?[") == std::string_view::npos) return {};
  return glob_paths(std::string(spec));
}

namespace {

void add_layout(ResolvedSpec& out, const std::string& layout) {
  for (fs::path& shard : out.shards) {
    ShardPath parts = split_shard_path(shard);
    parts.layout = layout;
    shard = join_shard_path(parts);
  }
}

void resolve(ResolvedSpec& out, std::string_view spec, const Wish& wish) {
  const std::string text(spec);
  const fs::path path(text);
  std::error_code error;
  if (text == "-") {
    throw Error(ErrorCode::kUnsupported, "-", {},
                "standard input can only be read in order, by convert, inspect and verify",
                "shardmill convert - DIR --to tar");
  }
  if (text.empty()) {
    throw Error(ErrorCode::kInvalidArgument, {}, {}, "the dataset's path is empty");
  }
  if (fs::is_directory(path, error)) {
    take_directory(out, path, wish);
  } else if (fs::exists(path, error)) {
    if (!wish.any() && is_manifest_file(path)) {
      take_manifest(out, path);
    } else {
      out.reason = "one shard";
      take_shards(out, {path}, wish);
    }
  } else if (is_token_path(path)) {
    out.reason = "raw token file, rows as given behind #";
    out.format = &token_format();
    out.shards.push_back(fs::absolute(path).lexically_normal());
  } else if (shard_exists(path)) {
    out.reason = "one shard, the part behind #";
    take_shards(out, {path}, wish);
  } else if (const auto expanded = expand_braces(spec);
             expanded.size() > 1 || expanded[0] != spec) {
    out.reason = "brace range of " + std::to_string(expanded.size()) + " shards";
    take_shards(out, {expanded.begin(), expanded.end()}, wish);
  } else if (text.find_first_of("*?[") != std::string::npos) {
    const std::vector<fs::path> found = glob_paths(text);
    out.reason = "pattern that matches " + std::to_string(found.size()) + " shards";
    if (found.empty()) {
      throw Error(ErrorCode::kNotFound, text, {}, "no file matches this pattern", "check the path");
    }
    take_shards(out, found, wish);
  } else {
    throw Error(ErrorCode::kNotFound, text, {}, "no such file or directory", "check the path");
  }
}

}  // namespace

ResolvedSpec resolve_spec(std::string_view spec) {
  ResolvedSpec out;
  const std::size_t mark = spec.rfind(kLayoutMark);
  std::error_code error;
  if (mark == std::string_view::npos || fs::exists(fs::path(spec), error)) {
    resolve(out, spec, {});
    return out;
  }
  const std::string kind(spec.substr(mark + kLayoutMark.size()));
  bool is_layout = false;
  const Wish wish = parse_kind(kind, is_layout);
  resolve(out, spec.substr(0, mark), wish);
  out.reason += ", taken as " + kind;
  if (is_layout) add_layout(out, kind);
  return out;
}

}  // namespace shardmill::internal
