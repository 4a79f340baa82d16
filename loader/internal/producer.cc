// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/producer.h"

#include <shardmill/formats/digest.h>
#include <shardmill/loader/system/cpus.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>

#include "loader/internal/fields.h"
#include "loader/internal/numbers.h"
#include "loader/internal/pack.h"
#include "loader/internal/random_crop.h"

namespace shardmill::internal {

namespace {

using Form = OutputPlace::Form;

// Asking for the memory that is available takes a while; from here on it is worth it.
constexpr std::uint64_t kLargeBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kGeometryStream = ~std::uint64_t{2};  // of Random, for all images
constexpr std::uint32_t kUsageEvery = 16;  // samples between two looks at faults and CPU time

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

Producer::Producer(const Corpus& corpus, const LoaderOptions& options, int worker)
    : reader_(corpus),
      options_(options),
      worker_(worker),
      places_(place_outputs(options.outputs, options.batch_size)),
      decoder_({.mode = options.decode,
                .max_pixels = options.max_pixels,
                .apply_orientation = options.apply_orientation,
                .allow_truncated = options.allow_truncated}),
      chosen_(options.outputs.size()),
      find_row_([this](std::string_view name) { return view_of(name); }) {
  // By name: adding or moving an output does not change the others' random numbers.
  for (const Output& output : options.outputs) {
    streams_.push_back(hash_bytes(as_bytes(output.name)).low);
  }
}

void Producer::produce(const SlotControl& slot, const SlotMemory& memory, std::size_t row,
                       StatsRow& stats) noexcept {
  slot_ = &slot;
  memory_ = memory;
  row_ = row;
  while (true) {
    const std::optional<ErrorInfo> error = try_sample(slot, memory, row, stats);
    if (!error) {
      slot.status[row].store(RowStatus::kGood, std::memory_order_relaxed);
      return watch_usage(stats);
    }
    if (!slot.reject_sample(row, *error, worker_)) return;
  }
}

std::optional<ErrorInfo> Producer::try_sample(const SlotControl& slot, const SlotMemory& memory,
                                              std::size_t row, StatsRow& stats) noexcept {
  const std::uint64_t number = slot.sample(row);
  memory.key_ranges()[row] = {0, 0};
  stats.sample.store(number, std::memory_order_relaxed);
  SampleView sample;
  bool was_read = false;
  const auto place = [&] {
    if (!was_read) return std::string();
    const Output& output = options_.outputs[output_];
    const FieldView* const field = find_field(sample, output);
    std::string text = sample_place(sample.key, field != nullptr       ? field->name
                                                : output.field.empty() ? output.name
                                                                       : output.field);
    const std::string where = field != nullptr ? reader_.where(number, field->name) : "";
    return where.empty() ? text : text + " (" + where + ")";
  };
  try {
    const std::uint64_t begin = now_ns();
    reader_.read(number, sample);
    was_read = true;
    store_key(sample.key);
    const std::uint64_t read = now_ns();
    truncated_ = false;
    for (output_ = 0; output_ < places_.size(); ++output_) produce_output(output_, sample);
    const std::uint64_t end = now_ns();
    std::uint64_t bytes = 0;
    for (const FieldView& field : sample.fields) bytes += field.bytes.size();
    add(stats.samples, 1);
    add(stats.bytes, bytes);
    if (truncated_) add(stats.truncated, 1);
    add(stats.read_ns, read - begin);
    add(stats.produce_ns, end - read);
    if (end - begin > stats.slowest_ns.load(std::memory_order_relaxed)) {
      stats.slowest_ns.store(end - begin, std::memory_order_relaxed);
      stats.slowest_sample.store(number, std::memory_order_relaxed);
    }
    return std::nullopt;
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    if (info.path.empty()) info.path = shard_path(number);
    if (was_read) info.place = place() + (info.place.empty() ? "" : ": " + info.place);
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

void Producer::store_key(std::string_view key) {
  const std::uint64_t length = std::min<std::uint64_t>(key.size(), kMaxKeyBytes);
  const std::uint64_t begin = slot_->header->keys_used.fetch_add(length, std::memory_order_relaxed);
  const std::uint64_t capacity =
      memory_.layout->key_bytes - memory_.layout->batch_size * sizeof(ArenaRange);
  if (begin + length > capacity) return;  // many long keys, written again and again
  std::memcpy(memory_.key_text() + begin, key.data(), length);
  memory_.key_ranges()[row_] = {begin, length};
}

void Producer::produce_output(std::size_t index, const SampleView& sample) {
  const Output& output = options_.outputs[index];
  if (output.kind == OutputKind::kComputed) return compute(index, sample);
  if (output.kind == OutputKind::kGeometry) return produce_geometry(index);
  chosen_[index] = {};
  const FieldView* const field = find_field(sample, output);
  if (output.optional) memory_.present(places_[index])[row_] = field != nullptr;
  if (field == nullptr) {
    if (!output.optional) throw missing_field(sample, output);
    return produce_absent(index);
  }
  std::byte* const out = memory_.row(places_[index], row_);
  switch (output.kind) {
    case OutputKind::kImage:
      produce_image(index, *field);
      truncated_ = truncated_ || decoder_.was_truncated();
      return;
    case OutputKind::kClass:
    case OutputKind::kScalar: {
      if (!is_array(*field)) return parse_number(as_text(field->bytes), output.row.dtype, out);
      const NpyView array = array_of(*field);
      if (array.type.elements() != 1) refuse_type(output, array.type);
      return convert_numbers(array, output.row.dtype, out);
    }
    case OutputKind::kArray: {
      const NpyView array = array_of(*field);
      if (array.type != output.row) refuse_type(output, array.type);
      return canonical_elements(array, out);
    }
    case OutputKind::kTokens:
      return produce_tokens(index, *field);
    case OutputKind::kBytes:
      return produce_bytes(index, *field);
    case OutputKind::kMask:
      return produce_mask(index, *field);
    case OutputKind::kGeometry:
    case OutputKind::kComputed:
      break;
  }
}

void Producer::produce_image(std::size_t index, const FieldView& field) {
  const Output& output = options_.outputs[index];
  if (output.padding || !output.like.empty()) return produce_whole_image(index, field);
  const bool planes = output.pixels.channels_first;
  const std::vector<std::uint64_t>& shape = output.row.shape;
  const auto height = static_cast<std::uint32_t>(shape[planes ? 1 : 0]);
  const auto width = static_cast<std::uint32_t>(shape[planes ? 2 : 1]);
  const PlanEntry& plan = slot_->plan[row_];
  Random random(plan.seed, plan.epoch, plan.position, kGeometryStream);
  const auto choose = [&](std::uint32_t image_width, std::uint32_t image_height) {
    const ImagePart part = output.crop
                               ? random_part(*output.crop, image_width, image_height, random)
                               : fit_part(output.fit, image_width, image_height, width, height);
    chosen_[index] = {image_width, image_height, part};
    return part;
  };
  // By reference: a copy of what it captures would be allocated.
  decoder_.decode_part(field.bytes, std::ref(choose), width, height, output.pixels,
                       memory_.row(places_[index], row_));
}

// An image at its own size: that of all others, or padded.
void Producer::produce_whole_image(std::size_t index, const FieldView& field) {
  const Output& output = options_.outputs[index];
  const OutputPlace& place = places_[index];
  const ImageInfo info = probe_image(
      field.bytes, options_.apply_orientation);  // what does not fit is not decoded at all
  const ArrayType own = output.pixels.row(info.width, info.height);
  const bool fits = output.padding
                        ? own.shape[0] <= output.row.shape[0] && own.shape[1] <= output.row.shape[1]
                        : own.shape == output.row.shape;
  if (!fits) refuse_type(output, own);
  chosen_[index] = {info.width, info.height,
                    fit_part(Fit::kStretch, info.width, info.height, info.width, info.height)};
  if (output.padding) {
    memory_.sizes(place, row_)[0] = info.height;
    memory_.sizes(place, row_)[1] = info.width;
  }
  if (place.form == Form::kPadded) {
    return decoder_.decode_full(field.bytes, info.width, info.height, output.pixels,
                                reserve(index, own.bytes()));
  }
  std::byte* const out = memory_.row(place, row_);
  if (output.padding && own.shape != output.row.shape) {
    fill_numbers(output.row.dtype, output.padding->value, out, output.row.elements());
  }
  const std::uint64_t width = output.padding ? output.row.shape[1] : info.width;
  const std::uint64_t height = output.padding ? output.row.shape[0] : info.height;
  decoder_.decode_full(field.bytes, static_cast<std::uint32_t>(width),
                       static_cast<std::uint32_t>(height), output.pixels, out);
}

// The image was placed before, because its output was declared before.
void Producer::produce_mask(std::size_t index, const FieldView& field) {
  const Output& output = options_.outputs[index];
  masks_.place(field, chosen_[image_of(output)], output, memory_.row(places_[index], row_));
}

void Producer::produce_geometry(std::size_t index) {
  const std::size_t image = image_of(options_.outputs[index]);
  const std::vector<std::uint64_t>& shape = options_.outputs[image].row.shape;
  const std::size_t first = options_.outputs[image].pixels.channels_first ? 1 : 0;
  write_geometry(chosen_[image], shape[first + 1], shape[first], memory_.row(places_[index], row_));
}

void Producer::produce_tokens(std::size_t index, const FieldView& field) {
  const Output& output = options_.outputs[index];
  const OutputPlace& place = places_[index];
  NpyView tokens = sequence_of(field, output.stored.value_or(output.row.dtype));
  std::uint64_t& length = tokens.type.shape[0];
  if (is_ragged(output)) {
    return convert_numbers(tokens, output.row.dtype,
                           reserve(index, length * dtype_size(output.row.dtype)));
  }
  const std::uint64_t largest = output.row.shape[0];
  if (length > largest && output.truncate) {
    length = largest;
    tokens.data = tokens.data.first(length * dtype_size(tokens.type.dtype));
  }
  if (length > largest || (length < largest && !output.padding)) refuse_type(output, tokens.type);
  const std::uint64_t bytes = length * dtype_size(output.row.dtype);
  if (output.padding) memory_.sizes(place, row_)[0] = static_cast<std::int64_t>(length);
  if (place.form == Form::kPadded) {
    return convert_numbers(tokens, output.row.dtype, reserve(index, bytes));
  }
  std::byte* const out = memory_.row(place, row_);
  convert_numbers(tokens, output.row.dtype, out);
  if (output.padding) {
    fill_numbers(output.row.dtype, output.padding->value, out + bytes, largest - length);
  }
}

void Producer::produce_bytes(std::size_t index, const FieldView& field) {
  const std::string header =
      field.array != nullptr ? npy_header(*field.array) : std::string();  // bytes mean .npy bytes
  std::byte* const to = reserve(index, header.size() + field.bytes.size());
  std::memcpy(to, header.data(), header.size());
  if (!field.bytes.empty()) {
    std::memcpy(to + header.size(), field.bytes.data(), field.bytes.size());
  }
}

void Producer::produce_absent(std::size_t index) {
  const Output& output = options_.outputs[index];
  const OutputPlace& place = places_[index];
  for (std::uint32_t i = 0; i < place.extents; ++i) memory_.sizes(place, row_)[i] = 0;
  if (place.form != Form::kRows) {
    reserve(index, 0);
  } else if (output.padding) {
    fill_numbers(output.row.dtype, output.padding->value, memory_.row(place, row_),
                 output.row.elements());
  } else {
    std::memset(memory_.row(place, row_), 0, place.row_bytes);
  }
}

void Producer::compute(std::size_t index, const SampleView& sample) {
  const PlanEntry& plan = slot_->plan[row_];
  const OutputPlace& place = places_[index];
  Random random(plan.seed, plan.epoch, plan.position, streams_[index]);
  // What the function leaves out must not be what another batch had there.
  std::memset(memory_.row(place, row_), 0, place.row_bytes);
  const RowContext context(sample, random, {memory_.row(place, row_), place.row_bytes}, find_row_);
  try {
    options_.outputs[index].compute(context);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view words = error.what();
    if (words.find("CUDA") == std::string_view::npos) throw;
    throw Error(ErrorCode::kUnsupported, {}, {},
                "CUDA in a worker: the function of output \"" + options_.outputs[index].name +
                    "\" used it and got: " + std::string(words.substr(0, words.find('\n'))),
                "use the GPU in the training program, on whole batches");
  }
}

// The image output that `output` follows.
std::size_t Producer::image_of(const Output& output) const {
  const auto named = [&](const Output& other) { return other.name == output.image; };
  const auto found = std::find_if(options_.outputs.begin(), options_.outputs.end(), named);
  return static_cast<std::size_t>(found - options_.outputs.begin());
}

// The row of an output before the one being made.
RowView Producer::view_of(std::string_view name) const {
  for (std::size_t i = 0; i < output_; ++i) {
    if (options_.outputs[i].name == name) return view_of(places_[i], options_.outputs[i]);
  }
  throw Error(ErrorCode::kNotFound, {}, {},
              "no output \"" + escape(name) + "\" was declared before \"" +
                  options_.outputs[output_].name + "\"",
              "change the order of the outputs");
}

RowView Producer::view_of(const OutputPlace& place, const Output& output) const {
  RowView view;
  if (place.form == Form::kRows) {
    view.bytes = {memory_.row(place, row_), place.row_bytes};
  } else if (place.form == Form::kList) {
    const auto element = static_cast<std::int64_t>(dtype_size(output.row.dtype));
    view.bytes = {memory_.arena(place.arena) + memory_.offsets(place)[row_] * element,
                  static_cast<std::size_t>(memory_.lengths(place)[row_] * element)};
  } else {
    const ArenaRange range =
        slot_->ranges[row_ * kMaxArenas + static_cast<std::size_t>(place.arena)];
    view.bytes = {memory_.arena(place.arena) + range.begin, range.length};
  }
  if (place.extents > 0) view.size = {memory_.sizes(place, row_), place.extents};
  if (place.present != OutputPlace::kNone) view.present = memory_.present(place)[row_] != 0;
  return view;
}

// Takes room for the row's value in the output's arena.
std::byte* Producer::reserve(std::size_t index, std::uint64_t length) {
  const OutputPlace& place = places_[index];
  const auto arena = static_cast<std::size_t>(place.arena);
  const std::uint64_t capacity = memory_.layout->arena_bytes;
  // Packed, the value is there twice for a while.
  const std::uint64_t needed = place.form == Form::kList ? length : 2 * length;
  if (needed >= kLargeBytes && needed > available_memory()) {
    throw Error(
        ErrorCode::kResourceExhausted, {}, {},
        "a value of " + std::to_string(length) + " bytes needs more memory than is available",
        "split the sample, or leave the field out");
  }
  std::uint64_t begin = capacity;
  if (length <= capacity) {  // elements of any type begin at multiples of 8
    begin = slot_->header->arena_used[arena].fetch_add((length + 7) / 8 * 8);
  }
  if (begin > capacity - std::min(length, capacity)) {
    throw Error(ErrorCode::kResourceExhausted, {}, {},
                "with this value of " + std::to_string(length) +
                    " bytes the batch's values of "
                    "output \"" +
                    options_.outputs[index].name + "\" exceed " + std::to_string(capacity) +
                    " bytes",
                "use a smaller batch_size or prefetch");
  }
  if (place.form == Form::kList) {
    const std::uint64_t element = dtype_size(options_.outputs[index].row.dtype);
    memory_.offsets(place)[row_] = static_cast<std::int64_t>(begin / element);
    memory_.lengths(place)[row_] = static_cast<std::int64_t>(length / element);
  } else {
    slot_->ranges[row_ * kMaxArenas + arena] = {begin, length};
  }
  return memory_.arena(place.arena) + begin;
}

void Producer::pack(const SlotControl& slot, const SlotMemory& memory) noexcept {
  pack_values(options_.outputs, places_, slot, memory);
}

void Producer::look_ahead(std::uint64_t n) noexcept {
  if (cold_ && n < reader_.size()) reader_.will_need(n);
}

// Look-ahead costs a system call a sample, so it is made only while it can help: while major
// faults show that samples come from the disk.
void Producer::watch_usage(StatsRow& stats) noexcept {
  if (++samples_ % kUsageEvery != 0) return;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  // A look-ahead that works prevents the very faults it is switched on by: keep it on while the
  // kernel still reads blocks for this process.
  const long faults = usage.ru_majflt + usage.ru_inblock;
  cold_ = faults != faults_;
  faults_ = faults;
  const auto nanoseconds = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_usec) * 1000;
  };
  stats.faults.store(static_cast<std::uint64_t>(faults), std::memory_order_relaxed);
  stats.cpu_ns.store(nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
                     std::memory_order_relaxed);
}

}  // namespace shardmill::internal
