// SPDX-License-Identifier: Apache-2.0
#include "converters/sources/pack_source.h"

#include <shardmill/formats/array.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/internal/flat_index.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kMagic = 0x314B434150485331;  // "1SHPACK1"
constexpr std::uint64_t kProgressEvery = 256;         // samples

struct Head {
  std::uint64_t length = 0;
  std::uint64_t has_eos = 0;
  std::int64_t eos = 0;
  std::uint64_t dtype = 0;
};

bool is_integer(DType dtype) { return dtype <= DType::kInt64; }

template <class T>
void widen(Bytes bytes, std::vector<std::int64_t>& out) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    out.push_back(static_cast<std::int64_t>(value));
  }
}

void widen(Bytes bytes, DType dtype, std::vector<std::int64_t>& out) {
  switch (dtype) {
    case DType::kUInt8:
      return widen<std::uint8_t>(bytes, out);
    case DType::kInt8:
      return widen<std::int8_t>(bytes, out);
    case DType::kUInt16:
      return widen<std::uint16_t>(bytes, out);
    case DType::kInt16:
      return widen<std::int16_t>(bytes, out);
    case DType::kUInt32:
      return widen<std::uint32_t>(bytes, out);
    case DType::kInt32:
      return widen<std::int32_t>(bytes, out);
    default:
      return widen<std::int64_t>(bytes, out);
  }
}

// Finds the tokens of a sample and appends them to `out`; returns the stored type.
std::optional<DType> tokens_of(const SampleView& sample, std::vector<std::int64_t>& out) {
  for (const FieldView& field : sample.fields) {
    if (field.array != nullptr && is_integer(field.array->dtype) &&
        field.array->shape.size() == 1) {
      widen(field.bytes, field.array->dtype, out);
      return field.array->dtype;
    }
    if (field.array == nullptr && (field.name == "npy" || field.name.ends_with(".npy"))) {
      const NpyView npy = parse_npy(field.bytes, {}, sample_place(sample.key, field.name));
      if (npy.type.shape.size() != 1 || !is_integer(npy.type.dtype)) continue;
      std::vector<std::byte> values(npy.data.size());
      if (!values.empty()) canonical_elements(npy, values.data());
      widen(values, npy.type.dtype, out);
      return npy.type.dtype;
    }
  }
  for (const FieldView& field : sample.fields) {
    if (field.name != "json" && !field.name.ends_with(".json")) continue;
    const Json json = Json::parse(as_text(field.bytes), nullptr, false);
    if (!json.is_array() || !std::all_of(json.begin(), json.end(), [](const Json& value) {
          return value.is_number_integer();
        })) {
      continue;
    }
    for (const Json& value : json) out.push_back(value.get<std::int64_t>());
    return DType::kUInt32;
  }
  return std::nullopt;
}

std::pair<std::int64_t, std::int64_t> range_of(DType dtype) {
  const auto bits = static_cast<int>(8 * dtype_size(dtype));
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 ||
                         dtype == DType::kInt32 || dtype == DType::kInt64;
  if (bits == 64)
    return {is_signed ? std::numeric_limits<std::int64_t>::min() : 0,
            std::numeric_limits<std::int64_t>::max()};
  return is_signed
             ? std::pair{-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1}
             : std::pair{std::int64_t{0}, (std::int64_t{1} << bits) - 1};
}

struct Packed {
  SourcePtr base;
  Head head;
  std::span<const std::uint64_t> ends;  // tokens up to the end of each sample, with its eos

  DType dtype() const { return static_cast<DType>(head.dtype); }
};

class PackReader : public SampleReader {
 public:
  explicit PackReader(const Packed& packed)
      : packed_(packed),
        reader_(packed.base->open()),
        type_{packed.dtype(), {packed.head.length}},
        row_(type_.bytes()) {}

  void read(std::uint64_t n, SampleView& out) override {
    const std::uint64_t begin = n * packed_.head.length;
    const std::uint64_t end = begin + packed_.head.length;
    const auto first = std::upper_bound(packed_.ends.begin(), packed_.ends.end(), begin);
    std::uint64_t filled = 0;
    for (auto sample = static_cast<std::uint64_t>(first - packed_.ends.begin());
         begin + filled < end; ++sample) {
      load(sample);
      const std::uint64_t start = sample == 0 ? 0 : packed_.ends[sample - 1];
      for (std::uint64_t i = begin + filled - start; i < tokens_.size() && begin + filled < end;
           ++i, ++filled) {
        put(filled, tokens_[i]);
      }
    }
    char digits[24];
    std::snprintf(digits, sizeof digits, "%09llu", static_cast<unsigned long long>(n));
    key_ = digits;
    field_ = {"tokens", row_, &type_};
    out = {key_, std::span(&field_, 1)};
  }

 private:
  void load(std::uint64_t sample) {
    if (loaded_ == sample) return;
    tokens_.clear();
    SampleView view;
    reader_->read(sample, view);
    tokens_of(view, tokens_);
    if (packed_.head.has_eos != 0) tokens_.push_back(packed_.head.eos);
    const std::uint64_t start = sample == 0 ? 0 : packed_.ends[sample - 1];
    if (tokens_.size() != packed_.ends[sample] - start) {
      throw Error(ErrorCode::kDataLoss, packed_.base->path_of(sample), sample_place(view.key),
                  "has another number of tokens than before", "convert again with --force");
    }
    loaded_ = sample;
  }
  void put(std::uint64_t i, std::int64_t token) {  // little-endian, as arrays are
    const std::size_t size = dtype_size(type_.dtype);
    std::memcpy(row_.data() + i * size, &token, size);
  }

  const Packed& packed_;
  std::unique_ptr<SampleReader> reader_;
  ArrayType type_;
  std::vector<std::byte> row_;
  std::vector<std::int64_t> tokens_;
  std::uint64_t loaded_ = ~std::uint64_t{0};
  std::string key_;
  FieldView field_;
};

class PackSource : public SampleSource {
 public:
  PackSource(SourcePtr base, Head head, std::vector<std::uint64_t> ends,
             std::vector<std::string> warnings)
      : owned_(std::move(ends)), warnings_(std::move(warnings)) {
    packed_ = {std::move(base), head, owned_};
  }
  PackSource(SourcePtr base, Head head, std::span<const std::uint64_t> ends) {
    packed_ = {std::move(base), head, ends};
  }

  std::uint64_t size() const override {
    return packed_.ends.empty() ? 0 : packed_.ends.back() / packed_.head.length;
  }
  std::string name() const override { return packed_.base->name(); }
  std::vector<std::string> warnings() const override { return warnings_; }
  std::string path_of(std::uint64_t) const override { return packed_.base->name(); }
  std::vector<fs::path> paths() const override { return packed_.base->paths(); }
  std::unique_ptr<SampleReader> open() const override {
    return std::make_unique<PackReader>(packed_);
  }
  std::string_view kind() const override { return "pack"; }
  std::vector<std::byte> flat() const override {
    const std::vector<std::byte> base = packed_.base->flat();
    FlatIndexWriter writer(kMagic);
    writer.add(std::span<const Head>(&packed_.head, 1));
    writer.add(packed_.base->kind());
    writer.add(packed_.ends);
    writer.add(std::span<const std::byte>(base));
    return writer.finish();
  }

 private:
  Packed packed_;
  std::vector<std::uint64_t> owned_;
  std::vector<std::string> warnings_;
};

}  // namespace

SourcePtr pack_source(SourcePtr base, std::uint64_t length, std::optional<std::int64_t> eos,
                      const std::string& dtype, const Observer& observer) {
  Head head{length, eos ? std::uint64_t{1} : 0, eos.value_or(0), 0};
  std::optional<DType> type;
  if (!dtype.empty()) {
    type = dtype_from_name(dtype);
    if (!type || !is_integer(*type)) {
      throw Error(ErrorCode::kInvalidArgument, "--dtype", {},
                  "\"" + escape(dtype) + "\" is no type of integers", "for example uint16");
    }
  }
  std::vector<std::uint64_t> ends;
  ends.reserve(base->size());
  const auto reader = base->open();
  std::vector<std::int64_t> tokens;
  Progress progress{"counting tokens", 0, base->size(), 0, 0};
  std::uint64_t total = 0;
  for (std::uint64_t n = 0; n < base->size(); ++n) {
    if (n % kProgressEvery == 0) {
      progress.samples = n;
      if (observer.progress) observer.progress(progress);
      if (observer.stop.stop_requested()) throw Interrupted();
    }
    SampleView sample;
    reader->peek(n, sample);
    tokens.clear();
    const auto stored = tokens_of(sample, tokens);
    if (!stored) {
      throw Error(ErrorCode::kUnsupported, base->path_of(n), sample_place(sample.key),
                  "has no tokens: no field is a list of integers", "--pack needs token samples");
    }
    if (!type) type = stored;
    if (eos) tokens.push_back(*eos);
    const auto [low, high] = range_of(*type);
    for (const std::int64_t token : tokens) {
      if (token >= low && token <= high) continue;
      throw Error(
          ErrorCode::kDataLoss, base->path_of(n), sample_place(sample.key),
          "the token " + std::to_string(token) + " does not fit " + std::string(dtype_name(*type)),
          "name a larger type with --dtype");
    }
    total += tokens.size();
    ends.push_back(total);
  }
  head.dtype = static_cast<std::uint64_t>(type.value_or(DType::kUInt16));
  if (total < length) {
    throw Error(ErrorCode::kNotFound, base->name(), {},
                "holds " + std::to_string(total) + " tokens, less than one row of " +
                    std::to_string(length),
                "give a smaller --pack");
  }
  std::vector<std::string> warnings = base->warnings();
  if (total % length != 0) {
    warnings.push_back("the last " + std::to_string(total % length) + " of " +
                       std::to_string(total) + " tokens do not fill a row and are left out");
  }
  return std::make_shared<PackSource>(std::move(base), head, std::move(ends), std::move(warnings));
}

SourcePtr attach_pack_source(Bytes flat) {
  const FlatIndexReader reader(flat, kMagic, 4, "the plan");
  const auto head = reader.get<Head>(0);
  if (head.size() != 1 || head[0].length == 0) reader.damaged("it has no length");
  return std::make_shared<PackSource>(attach_source(reader.text(1), reader.get<std::byte>(3)),
                                      head[0], reader.get<std::uint64_t>(2));
}

}  // namespace shardmill::internal
