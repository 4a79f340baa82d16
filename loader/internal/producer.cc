// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/producer.h"

#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>

namespace shardmill::internal {

namespace {

constexpr std::uint32_t kFaultsEvery = 16;  // samples between two looks at the fault counter

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

const FieldView& field_of(const SampleView& sample, const Output& output) {
  const FieldView* found = nullptr;
  if (!output.field.empty()) {
    found = sample.find(output.field);
  } else {
    for (const FieldView& field : sample.fields) {
      if (found == nullptr && is_image_field(field.name)) found = &field;
    }
  }
  if (found != nullptr) return *found;
  std::string names;
  for (const FieldView& field : sample.fields) {
    names += (names.empty() ? "" : ", ") + escape(field.name);
  }
  throw Error(
      ErrorCode::kNotFound, {}, {},
      output.field.empty() ? "has no image field" : "has no field \"" + escape(output.field) + "\"",
      "fields of this sample: " + (names.empty() ? "none" : names));
}

std::int64_t parse_class(const FieldView& field) {
  const std::string_view text = as_text(field.bytes);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || rest.find_first_not_of(" \n\r\t") != std::string_view::npos) {
    throw Error(ErrorCode::kDataLoss, {}, {},
                "not a decimal class number: \"" + escape(text.substr(0, 40)) + "\"");
  }
  return value;
}

std::string shape_text(const ArrayType& type) {
  std::string text(dtype_name(type.dtype));
  text += " (";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(type.shape[i]);
  }
  return text + ")";
}

// Copies an array into its row, in C order, little-endian.
void copy_array(const FieldView& field, const ArrayType& row, std::byte* out) {
  NpyView npy;
  if (field.array != nullptr) {
    npy.type = *field.array;
    npy.data = field.bytes;
  } else {
    npy = parse_npy(field.bytes, {}, {});
  }
  if (npy.type != row) {
    throw Error(ErrorCode::kInvalidArgument, {}, {},
                "array is " + shape_text(npy.type) + ", the batch has rows of " + shape_text(row),
                "store arrays of one type and shape, or declare the output as bytes");
  }
  canonical_elements(npy, out);
}

}  // namespace

Producer::Producer(const Corpus& corpus, const LoaderOptions& options)
    : reader_(corpus),
      options_(options),
      places_(place_outputs(options.outputs, options.batch_size)),
      decoder_(DecodeOptions{.mode = options.decode}) {}

void Producer::produce(const SlotControl& slot, const SlotMemory& memory, std::size_t row,
                       StatsRow& stats) noexcept {
  while (true) {
    const std::optional<ErrorInfo> error = try_sample(slot, memory, row, stats);
    if (!error) {
      slot.status[row].store(RowStatus::kGood, std::memory_order_relaxed);
      return watch_faults();
    }
    if (!slot.reject_sample(row, *error)) return;
  }
}

std::optional<ErrorInfo> Producer::try_sample(const SlotControl& slot, const SlotMemory& memory,
                                              std::size_t row, StatsRow& stats) noexcept {
  const PlanEntry& plan = slot.plan[row];
  const std::uint64_t number = slot.sample(row);
  SampleView sample;
  const Output* current = nullptr;
  const auto place = [&] {
    return current == nullptr ? std::string() : sample_place(sample.key, current->name);
  };
  try {
    const std::uint64_t begin = now_ns();
    reader_.read(number, sample);
    const std::uint64_t read = now_ns();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      current = &options_.outputs[i];
      produce_output(*current, places_[i], sample, plan, slot, memory, row);
    }
    const std::uint64_t end = now_ns();
    std::uint64_t bytes = 0;
    for (const FieldView& field : sample.fields) bytes += field.bytes.size();
    stats.samples.fetch_add(1, std::memory_order_relaxed);
    stats.bytes.fetch_add(bytes, std::memory_order_relaxed);
    stats.read_ns.fetch_add(read - begin, std::memory_order_relaxed);
    stats.produce_ns.fetch_add(end - read, std::memory_order_relaxed);
    return std::nullopt;
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    if (info.path.empty()) info.path = shard_path(number);
    if (current != nullptr) {
      const std::string field = current->field.empty() ? current->name : current->field;
      info.place = sample_place(sample.key, field) + (info.place.empty() ? "" : ": " + info.place);
    }
    return info;
  } catch (const std::exception& error) {
    return ErrorInfo{ErrorCode::kInternal, shard_path(number), place(), error.what(), {}};
  } catch (...) {
    return ErrorInfo{ErrorCode::kInternal,
                     shard_path(number),
                     place(),
                     "the output's function threw something that is no std::exception",
                     {}};
  }
}

std::string Producer::shard_path(std::uint64_t sample) const {
  std::uint64_t number = 0;
  return reader_.corpus().shard_of(sample, number).path.string();
}

void Producer::produce_output(const Output& output, const OutputPlace& place,
                              const SampleView& sample, const PlanEntry& plan,
                              const SlotControl& slot, const SlotMemory& memory, std::size_t row) {
  std::byte* const out = memory.row(place, row);
  switch (output.kind) {
    case OutputKind::kImage:
      decoder_.decode_cover(
          field_of(sample, output).bytes, static_cast<std::uint32_t>(output.row.shape[1]),
          static_cast<std::uint32_t>(output.row.shape[0]), reinterpret_cast<std::uint8_t*>(out));
      break;
    case OutputKind::kClass: {
      const std::int64_t value = parse_class(field_of(sample, output));
      std::memcpy(out, &value, sizeof value);
      break;
    }
    case OutputKind::kArray:
      copy_array(field_of(sample, output), output.row, out);
      break;
    case OutputKind::kBytes:
      append(output, place, field_of(sample, output), slot, memory, row);
      break;
    case OutputKind::kComputed: {
      Random random(plan.seed, plan.epoch, plan.position);
      output.compute(sample, random, {out, place.row_bytes});
      break;
    }
  }
}

void Producer::append(const Output& output, const OutputPlace& place, const FieldView& field,
                      const SlotControl& slot, const SlotMemory& memory, std::size_t row) {
  const auto ragged = static_cast<std::size_t>(place.ragged);
  const std::string header =
      field.array != nullptr ? npy_header(*field.array) : std::string();  // bytes mean .npy bytes
  const std::uint64_t length = header.size() + field.bytes.size();
  const std::uint64_t capacity = memory.layout->arena_bytes;
  std::uint64_t begin = capacity;
  if (length <= capacity) begin = slot.header->arena_used[ragged].fetch_add(length);
  if (begin > capacity - std::min(length, capacity)) {
    throw Error(ErrorCode::kResourceExhausted, {}, {},
                "the batch's values of output \"" + output.name + "\" exceed " +
                    std::to_string(capacity) + " bytes",
                "use a smaller batch_size or prefetch");
  }
  std::byte* const to = memory.arena(place.ragged) + begin;
  std::memcpy(to, header.data(), header.size());
  if (!field.bytes.empty()) {
    std::memcpy(to + header.size(), field.bytes.data(), field.bytes.size());
  }
  slot.ranges[row * kMaxRagged + ragged] = {begin, length};
}

void Producer::pack(const SlotControl& slot, const SlotMemory& memory) noexcept {
  for (const OutputPlace& place : places_) {
    if (place.ragged < 0) continue;
    const std::byte* const arena = memory.arena(place.ragged);
    std::byte* const packed = memory.packed(place.ragged);
    std::int64_t* const offsets = memory.offsets(place);
    std::uint64_t at = 0;
    for (std::size_t row = 0; row < slot.header->rows; ++row) {
      offsets[row] = static_cast<std::int64_t>(at);
      if (slot.status[row].load(std::memory_order_relaxed) != RowStatus::kGood) continue;
      const RaggedRange range =
          slot.ranges[row * kMaxRagged + static_cast<std::size_t>(place.ragged)];
      std::memcpy(packed + at, arena + range.begin, range.length);
      at += range.length;
    }
    offsets[slot.header->rows] = static_cast<std::int64_t>(at);
  }
}

void Producer::look_ahead(std::uint64_t n) noexcept {
  if (cold_ && n < reader_.size()) reader_.will_need(n);
}

// Look-ahead costs a system call a sample, so it is made only while it can help: while major
// faults show that samples come from the disk.
void Producer::watch_faults() noexcept {
  if (++samples_ % kFaultsEvery != 0) return;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // A look-ahead that works prevents the very faults it is switched on by: keep it on while the
  // kernel still reads blocks for this process.
  const long faults = usage.ru_majflt + usage.ru_inblock;
  cold_ = faults != faults_;
  faults_ = faults;
}

void resolve_outputs(CorpusReader& reader, LoaderOptions& options) {
  const bool infer = options.outputs.empty();
  bool need_sample = infer;
  for (const Output& output : options.outputs) {
    need_sample |= output.kind == OutputKind::kArray && output.row.shape.empty();
  }
  if (!need_sample || reader.size() == 0) return;
  SampleView sample;
  reader.read(0, sample);
  if (infer) {
    for (const FieldView& field : sample.fields) {
      const std::string name(field.name);
      if (name == "cls") {
        options.outputs.push_back(class_output("label", name));
      } else if (field.array != nullptr || name == "npy" || name.ends_with(".npy")) {
        options.outputs.push_back(array_output(name, name));
      } else {
        options.outputs.push_back(bytes_output(name, name));
      }
    }
  }
  for (Output& output : options.outputs) {
    if (output.kind != OutputKind::kArray || !output.row.shape.empty()) continue;
    const std::string path = reader.corpus().datasets().front().spec();
    const FieldView* field = sample.find(output.field);
    if (field == nullptr) {
      throw Error(ErrorCode::kNotFound, path, sample_place(sample.key),
                  "has no field \"" + escape(output.field) + "\"");
    }
    output.row = field->array != nullptr
                     ? *field->array
                     : parse_npy(field->bytes, path, sample_place(sample.key, field->name)).type;
  }
}

}  // namespace shardmill::internal
