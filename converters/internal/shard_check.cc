// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/shard_check.h"

#include <fnmatch.h>
#include <shardmill/formats/error.h>

#include <vector>

#include "converters/internal/sum_file.h"
#include "formats/internal/dataset_spec.h"
#include "formats/internal/shard_path.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

// Returns the manifest file that `spec` stands for, or an empty path.
fs::path manifest_of(const std::string& spec) {
  std::error_code error;
  const fs::path path(spec);
  if (fs::is_directory(path, error)) {
    const fs::path file = path / kManifestName;
    return fs::exists(file, error) ? file : fs::path();
  }
  return path.extension() == ".json" && fs::is_regular_file(path, error) ? path : fs::path();
}

// Returns an error's own words without path and remedy, which the report has elsewhere.
std::string words(const Error& error) {
  const ErrorInfo& info = error.info();
  return info.place.empty() ? info.cause : info.place + ": " + info.cause;
}

void add_listed(const Manifest& manifest, const fs::path& directory, CheckPlan& plan) {
  const Format& format = find_format(manifest.format);
  for (const ManifestShard& shard : manifest.shards) {
    const fs::path path = shard.url == "." ? directory : (directory / shard.url).lexically_normal();
    plan.shards.push_back({path, shard, sum_path(directory, shard.url), &format});
  }
}

CheckPlan plan_all(const std::string& spec) {
  CheckPlan plan;
  plan.name = spec;
  const fs::path file = manifest_of(spec);
  if (file.empty()) {
    ResolvedSpec resolved = resolve_spec(spec);
    plan.format = resolved.format;
    for (const fs::path& path : resolved.shards) {
      plan.shards.push_back({path, std::nullopt, {}, resolved.format});
      // One shard of a dataset of ours has its sample hashes beside it.
      if (fs::is_regular_file(path) || fs::exists(path / "data.mdb")) {
        plan.shards.back().sums = sum_path(path.parent_path(), path.filename().native());
      }
    }
    return plan;
  }
  // Not resolve_spec(): that refuses a dataset which lacks a shard, here it is one more finding.
  const Manifest manifest = load_manifest(file);
  plan.format = &find_format(manifest.format);
  plan.view = !manifest.rules.empty();
  const fs::path directory = fs::absolute(file).lexically_normal().parent_path();
  add_listed(manifest, directory, plan);
  plan.samples = manifest.samples() * (plan.view ? 2 + manifest.joined.size() : 1);
  for (const Manifest& joined : manifest.joined) add_listed(joined, directory, plan);
  plan.content_digest = manifest.content_digest;
  return plan;
}

}  // namespace

CheckPlan plan_check(const std::string& spec, const std::string& pattern) {
  CheckPlan plan = plan_all(spec);
  if (pattern.empty()) return plan;
  std::erase_if(plan.shards, [&](const ShardToCheck& shard) {
    return fnmatch(pattern.c_str(), shard.path.filename().c_str(), 0) != 0;
  });
  plan.content_digest.clear();
  plan.view = false;
  plan.samples = 0;
  for (const ShardToCheck& shard : plan.shards) {
    plan.samples += shard.listed ? shard.listed->samples : 0;
  }
  if (plan.shards.empty()) {
    throw Error(ErrorCode::kNotFound, spec, {}, "no shard's name matches " + escape(pattern),
                "quote the pattern, for example 'shard-00001?.tar'");
  }
  return plan;
}

ShardCheck::ShardCheck(const ShardToCheck& shard, bool decode)
    : format_(*shard.format), shard_(shard), images_(decode) {}

void ShardCheck::damage(std::string_view key, std::string_view field, std::string cause) {
  damaged_.push_back(
      {shard_.path.string(), std::string(key), std::string(field), std::move(cause)});
}

void ShardCheck::run(TaskContext& context) {
  std::error_code error;
  const fs::path file = format_.data_file(shard_.path);
  if (!fs::exists(file.empty() ? file_of_shard(shard_.path) : file, error)) {
    const std::string lost =
        shard_.listed ? " (" + std::to_string(shard_.listed->samples) + " samples)" : "";
    return damage({}, {}, "the shard is missing" + lost);
  }
  try {
    if (!shard_.sums.empty()) sums_ = load_sums(shard_.sums);
  } catch (const Error& failure) {
    damaged_.push_back({shard_.sums.string(), {}, {}, words(failure)});
  }
  try {
    check_samples(context);
  } catch (const Error& failure) {
    damage({}, {}, words(failure));
  }
  try {
    check_file();
  } catch (const Error& failure) {
    damage({}, {}, words(failure));
  }
}

void ShardCheck::check_file() {
  const fs::path file = format_.data_file(shard_.path);
  if (!shard_.listed || file.empty()) return;
  const ManifestShard& listed = *shard_.listed;
  const std::uint64_t size = fs::file_size(file);
  if (listed.filesize != 0 && size != listed.filesize) {
    return damage({}, {},
                  "has " + std::to_string(size) + " bytes, the manifest says " +
                      std::to_string(listed.filesize));
  }
  if (!listed.xxh3.empty() && hash_file(file.string()).hex() != listed.xxh3) {
    damage({}, {}, "the file's checksum (XXH3) is not the one in the manifest");
  }
}

void ShardCheck::check_samples(TaskContext& context) {
  const std::vector<std::byte> index = format_.build_index(shard_.path, Access::kRead);
  const auto reader = format_.open(shard_.path, index, Access::kRead);
  const std::uint64_t count = reader->size();
  if (shard_.listed && shard_.listed->samples != count) {
    damage({}, {},
           "holds " + std::to_string(count) + " samples, the manifest says " +
               std::to_string(shard_.listed->samples));
  }
  // With another count nobody knows which hash belongs to which sample.
  if (sums_ && sums_->size() != count) {
    damage({}, {},
           "holds " + std::to_string(count) + " samples, its list of hashes " +
               std::to_string(sums_->size()));
    sums_.reset();
  }
  for (std::uint64_t n = 0; n < count; ++n) check_sample(*reader, n, context);
}

void ShardCheck::check_sample(Reader& reader, std::uint64_t n, TaskContext& context) {
  SampleView sample;
  try {
    reader.read(n, sample);
  } catch (const Error& failure) {
    damage({}, {}, "sample " + std::to_string(n) + ": " + words(failure));
    context.advance(1, 0);
    return;
  }
  const Digest digest = hasher_.hash(sample);
  if (sums_ && (*sums_)[n] != digest.low) {
    damage(sample.key, {},
           "sample " + std::to_string(n) + " is not what was written (its hash differs)");
  }
  images_.check(sample, shard_.path.string(), damaged_);
  digest_ += digest;
  ++samples_;
  std::uint64_t bytes = 0;
  for (const FieldView& field : sample.fields) bytes += field.bytes.size();
  bytes_ += bytes;
  context.advance(1, bytes);
}

void ViewCheck::run(DatasetReader& reader, const DatasetShard& range, TaskContext& context) {
  SampleHasher hasher;
  SampleView sample;
  for (std::uint64_t n = range.first; n < range.first + range.samples; ++n) {
    std::uint64_t read = 0;
    try {
      reader.read(n, sample);
      digest += hasher.hash(sample);
      ++samples;
      for (const FieldView& field : sample.fields) read += field.bytes.size();
      bytes += read;
    } catch (const Error& failure) {
      damaged.push_back(
          {failure.info().path, {}, {}, "sample " + std::to_string(n) + ": " + words(failure)});
    }
    context.advance(1, read);
  }
}

ImageCheck::ImageCheck(bool decode) {
  if (decode) decoder_.emplace(DecodeOptions{DecodeMode::kExact});
}

void ImageCheck::check(const SampleView& sample, const std::string& shard,
                       std::vector<Damage>& out) {
  if (!decoder_) return;
  for (const FieldView& field : sample.fields) {
    if (!is_image_field(field.name) || field.array != nullptr) continue;
    try {
      decoder_->decode_full(field.bytes);
    } catch (const Error& failure) {
      out.push_back(
          {shard, std::string(sample.key), std::string(field.name), failure.info().cause});
    }
  }
}

}  // namespace shardmill::internal
