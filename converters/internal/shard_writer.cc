// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/shard_writer.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <map>

#include "converters/internal/sum_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLookAhead = 8;  // samples whose bytes are asked for in advance

// The sample is at fault, not the machine: what is read may be damaged or not readable, what is
// written may only be beyond the format.
bool may_skip(const Error& error, bool writing) {
  switch (error.code()) {
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalidArgument:
      return true;
    case ErrorCode::kDataLoss:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      return !writing;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kInternal:
      break;
  }
  return false;
}

std::uint64_t payload(const SampleView& sample) {
  std::uint64_t bytes = 0;
  for (const FieldView& field : sample.fields) bytes += field.bytes.size();
  return bytes;
}

}  // namespace

// One pass over a shard's samples.
struct ShardWriter::Attempt {
  std::unique_ptr<Writer> writer;
  FinishedShard finished;
  bool writing = false;  // the sample is read and converted
  std::vector<SampleSum> sums;
  std::map<std::uint64_t, SkippedSample> bad = {};  // by position, known before or found by it
};

ShardWriter::ShardWriter(const SourceSet& sources, const ConvertPlan& plan,
                         const ConvertOptions& options, const fs::path& destination)
    : sources_(sources),
      plan_(plan),
      options_(options),
      format_(find_format(options.format)),
      destination_(destination),
      reader_(sources, options),
      transform_(options, raw_type(plan.parts.front().manifest.fields)),
      space_(destination, options.reserve) {}

fs::path ShardWriter::directory_of(const PlannedShard& planned) const {
  const std::string& part = plan_.parts[planned.part].name;
  return part.empty() ? destination_ : destination_ / part;
}

FinishedShard ShardWriter::write(std::size_t number, TaskContext& context) {
  const PlannedShard& planned = plan_.shards[number];
  const fs::path directory = directory_of(planned);
  const fs::path path = planned.url == "." ? directory : directory / planned.url;
  space_.check();
  Attempt state;
  // Formats with columns must know the number of samples before the first: after a finding the
  // shard is begun again without what was bad.
  do {
    state.finished = {};
    state.finished.number = number;
    state.finished.entry.url = planned.url;
    state.sums.clear();
    state.writer.reset();
    state.writer = format_.create(path, {plan_.parts[planned.part].manifest.fields,
                                         planned.samples - state.bad.size(), options_.hdf5_vlen});
  } while (!attempt(planned, state, context));
  state.writer->close();
  const fs::path file = format_.data_file(path);
  if (!file.empty()) {
    state.finished.entry.filesize = state.finished.bytes = fs::file_size(file);
    state.finished.entry.xxh3 = hash_file(file.string()).hex();
  }
  save_sums(planned, state.sums);
  return state.finished;
}

// Returns false if the shard must be begun again.
bool ShardWriter::attempt(const PlannedShard& planned, Attempt& state, TaskContext& context) {
  const bool counted = format_.name() == "hdf5";
  const std::map<std::uint64_t, SkippedSample> known = state.bad;
  for (std::uint64_t i = 0; i < planned.samples; ++i) {
    const std::uint64_t position = planned.first + i;
    if (i + kLookAhead < planned.samples) reader_.will_need(plan_.order(position + kLookAhead));
    if (const auto at = known.find(position); at != known.end()) {
      state.finished.skipped.push_back(at->second);
      continue;
    }
    std::uint64_t bytes = 0;
    try {
      bytes = copy_sample(position, state);
    } catch (const Error& error) {
      if (options_.on_error == OnError::kFail || !may_skip(error, state.writing)) throw;
      skip(error, position, state, context);
    }
    space_.wrote(bytes);
    context.advance(known.empty() ? 1 : 0, known.empty() ? bytes : 0);
  }
  return !counted || state.bad.size() == known.size();
}

// Returns the payload bytes that were read.
std::uint64_t ShardWriter::copy_sample(std::uint64_t position, Attempt& state) {
  const std::uint64_t n = plan_.order(position);
  SampleView source;
  state.writing = false;
  reader_.read(n, source);
  const SampleView sample = transform_.apply(source, sources_.shard_path(n));
  const Digest digest = hasher_.hash(sample);
  state.writing = true;
  state.writer->write(sample);
  state.finished.digest += digest;
  ++state.finished.entry.samples;
  state.finished.bytes += payload(sample);
  // Folders are read in the order of their keys, whatever the order of writing was.
  const bool by_key = state.finished.entry.url == ".";
  state.sums.push_back({by_key ? std::string(sample.key) : std::string(), digest.low});
  return payload(source);
}

void ShardWriter::skip(const Error& error, std::uint64_t position, Attempt& state,
                       TaskContext& context) {
  const ErrorInfo& info = error.info();
  const SamplePlace place = parse_sample_place(info.place);
  const SkippedSample sample{escape(info.path), escape(place.key), escape(place.field),
                             escape(info.cause)};
  state.finished.skipped.push_back(sample);
  state.bad.emplace(position, sample);
  context.count_error();
  if (!options_.max_errors) return;
  const std::uint64_t most = options_.max_errors->of(plan_.order.size());
  if (state.finished.skipped.size() <= most) return;
  ErrorInfo over = info;
  over.cause += " (one of more than " + std::to_string(most) + " samples with errors)";
  over.remedy = "repair the source, or allow more with --max-errors";
  throw Error(std::move(over));
}

void ShardWriter::save_sums(const PlannedShard& planned, std::vector<SampleSum>& sums) const {
  std::stable_sort(sums.begin(), sums.end(),
                   [](const SampleSum& a, const SampleSum& b) { return a.key < b.key; });
  std::vector<std::uint64_t> values;
  values.reserve(sums.size());
  for (const SampleSum& sum : sums) values.push_back(sum.value);
  internal::save_sums(sum_path(directory_of(planned), planned.url), values);
}

}  // namespace shardmill::internal
