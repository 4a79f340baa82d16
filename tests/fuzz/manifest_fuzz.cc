// SPDX-License-Identifier: Apache-2.0
// Any bytes as a manifest, and as an index file.
#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>
#include <unistd.h>

#include <filesystem>

#include "formats/internal/index_file.h"
#include "formats/internal/input_file.h"
#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

std::string index_file() {
  std::vector<std::uint64_t> index(9, 7);
  internal::IndexEntry entry;
  entry.samples = 3;
  entry.info = {"webdataset", {"cat", "dog"}, {"odd"}};
  entry.index = std::as_bytes(std::span<const std::uint64_t>(index));
  const std::string path = "/tmp/shardmill-fuzz-" + std::to_string(getpid());
  internal::write_index_file(path, {&entry, 1});
  internal::InputFile file(path, Access::kRead);
  std::string bytes(as_text(file.bytes(0, file.size())));
  std::filesystem::remove(path);
  return bytes;
}

}  // namespace

std::vector<std::string> seeds() {
  Manifest manifest;
  manifest.format = "hdf5";
  manifest.shards = {{"x.h5", 5, 100, ""}};
  manifest.fields = {{"cls", FieldKind::kClass}, {"x", FieldKind::kArray, {DType::kUInt8, {2, 3}}}};
  manifest.classes = {"cat", "dog"};
  manifest.joined.emplace_back(manifest);
  manifest.rules = {{"cls", 1, "y", "/a/0", FieldValue::kNumber, {1, 0}}, {"x", 0, "x"}};
  manifest.index = "i.index";
  return {manifest_text(manifest), index_file(), R"({"shardlist":[{"url":"a.tar","nsamples":2}]})"};
}

bool run(const std::string& input) {
  bool valid = true;
  try {
    const Manifest manifest = parse_manifest(input, "m.json");
    const std::string text = manifest_text(manifest);
    if (manifest_text(parse_manifest(text, "m.json")) != text) fail("a manifest changed");
  } catch (const Error& error) {
    const bool told =
        error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported;
    if (!told) fail(error.what());
    valid = false;
  }
  const MemoryPath file(input);
  try {
    const internal::IndexFile index(file.path());
    for (std::size_t i = 0; i < index.size(); ++i) {
      (void)index.entry(i);
      index.verify(i);
    }
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) fail(error.what());
  }
  return valid;
}

void mend(std::string&, std::uint64_t) {}

}  // namespace shardmill::fuzz
