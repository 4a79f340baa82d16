// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/stream_spec.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>
#include <shardmill/formats/stream.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "formats/internal/dataset_spec.h"
#include "formats/internal/descriptor.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 8> kSuffixes = {".tar.gz",  ".tgz",  ".tar.zst", ".tzst",
                                                       ".tar.bz2", ".tbz2", ".tar.xz",  ".tar.lz4"};

std::vector<fs::path> directory_paths(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::exists(directory / kManifestName, error)) return {};
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".")) continue;
    if (has_compressed_tar_name(name)) paths.push_back(entry.path());
    if (name.ends_with(".tar")) return {};  // those can be read by number
  }
  std::sort(paths.begin(), paths.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return paths;
}

}  // namespace

bool has_compressed_tar_name(const fs::path& path) {
  const std::string& name = path.native();
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

std::string_view compression_of(const fs::path& file) noexcept {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  const Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<std::byte, 6> magic;
  if (!fd.open()) return {};
  const ssize_t got = pread(fd.get(), magic.data(), magic.size(), 0);
  return got <= 0 ? std::string_view()
                  : compression_name(Bytes(magic).first(static_cast<std::size_t>(got)));
}

std::string unpacking_remedy(const fs::path& file) {
  const std::string name = escape(file.string());
  if (has_compressed_tar_name(file)) return "shardmill convert " + name + " DIR --to tar";
  const std::string_view compression = compression_of(file);
  if (compression == "gzip") return "unpack it first: gunzip -k " + name;
  return "unpack it first, for example with bsdcat";
}

std::vector<fs::path> stream_paths(std::string_view spec) {
  if (spec == "-") return {"-"};
  const fs::path path{std::string(spec)};
  std::error_code error;
  std::vector<fs::path> paths;
  if (fs::is_directory(path, error)) {
    paths = directory_paths(path);
  } else if (fs::exists(path, error)) {
    paths = {path};
  } else {
    paths = expand_pattern(spec);
  }
  const auto compressed = [](const fs::path& file) { return !compression_of(file).empty(); };
  if (paths.empty() || !std::all_of(paths.begin(), paths.end(), compressed)) return {};
  return paths;
}

}  // namespace shardmill::internal
