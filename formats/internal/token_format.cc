// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/token_format.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "formats/internal/flat_index.h"
#include "formats/internal/input_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMagic = 0x31304B4F54484853;  // "SHHTOK01"
constexpr std::string_view kField = "tokens";
constexpr std::size_t kKeyDigits = 12;

struct Rows {
  std::uint64_t file_size = 0;
  std::uint64_t rows = 0;
};

struct TokenPath {
  fs::path file;
  DType dtype = DType::kUInt16;
  std::uint64_t length = 0;

  std::uint64_t row_bytes() const noexcept { return length * dtype_size(dtype); }
};

[[noreturn]] void bad_option(const std::string& option, const std::string& cause,
                             const std::string& remedy) {
  throw Error(ErrorCode::kInvalidArgument, option, {}, cause, remedy);
}

bool split(const fs::path& path, TokenPath& out) {
  const std::string& text = path.native();
  const std::size_t hash = text.rfind('#');
  const std::size_t colon = text.rfind(':');
  const char* const end = text.data() + text.size();
  if (hash != std::string::npos && colon != std::string::npos && colon > hash) {
    const auto dtype = dtype_from_name(text.substr(hash + 1, colon - hash - 1));
    const auto number = std::from_chars(text.data() + colon + 1, end, out.length);
    if (dtype && number.ec == std::errc() && number.ptr == end && out.length > 0 &&
        out.length <= std::uint64_t{1} << 32) {
      out.file = text.substr(0, hash);
      out.dtype = *dtype;
      return true;
    }
  }
  return false;
}

TokenPath parse(const fs::path& path) {
  TokenPath out;
  if (split(path, out)) return out;
  throw Error(ErrorCode::kInvalidArgument, path.string(), {},
              "a token file needs its type and row length: FILE#uint16:2048",
              "make it a dataset with shardmill index FILE --dtype uint16 --seq-len 2048");
}

class TokenReader final : public Reader {
 public:
  TokenReader(const fs::path& path, Bytes index, Access access)
      : path_(parse(path)), file_(path_.file, access), type_{path_.dtype, {path_.length}} {
    const FlatIndexReader flat(index, kMagic, 1, path.string());
    const auto rows = flat.get<Rows>(0);
    if (rows.size() != 1 || rows[0].file_size != file_.size() ||
        rows[0].rows != file_.size() / path_.row_bytes()) {
      throw Error(ErrorCode::kDataLoss, file_.path(), {},
                  "the index is stale: the file has another size", "build the index again");
    }
    rows_ = rows[0].rows;
    info_.layout = "tokens";
    // Rows of several files need different keys; dots would end a key elsewhere.
    prefix_ = path_.file.stem().string();
    std::replace(prefix_.begin(), prefix_.end(), '.', '_');
    prefix_ += '/';
    const std::uint64_t rest = file_.size() % path_.row_bytes();
    if (rest != 0) {
      info_.warnings.push_back(std::to_string(rest / dtype_size(path_.dtype)) +
                               " tokens at the end fill no row of " + std::to_string(path_.length) +
                               " and are left out");
    }
  }

  std::uint64_t size() const noexcept override { return rows_; }

  void read(std::uint64_t n, SampleView& out) override {
    SHARDMILL_CHECK(n < rows_);
    file_.release();
    const std::string digits = std::to_string(n);
    key_.assign(prefix_).append(kKeyDigits - std::min(kKeyDigits, digits.size()), '0');
    key_ += digits;
    field_ = {kField, file_.bytes(n * path_.row_bytes(), path_.row_bytes()), &type_};
    out.key = key_;
    out.fields = {&field_, 1};
  }

  void will_need(std::uint64_t n) noexcept override {
    if (n < rows_) file_.will_need(n * path_.row_bytes(), path_.row_bytes());
  }

  const ShardInfo& info() const noexcept override { return info_; }

 private:
  TokenPath path_;
  InputFile file_;
  ArrayType type_;
  std::uint64_t rows_ = 0;
  ShardInfo info_;
  std::string prefix_;
  std::string key_;
  FieldView field_;
};

class TokenFormat final : public Format {
 public:
  std::string_view name() const noexcept override { return "tokens"; }
  std::string_view suffix() const noexcept override { return ".bin"; }
  FormatTraits traits() const noexcept override { return {}; }
  bool recognises(const fs::path&) const override { return false; }

  std::vector<std::byte> build_index(const fs::path& path, Access access) const override {
    const TokenPath parsed = parse(path);
    const InputFile file(parsed.file, access);
    const std::uint64_t element = dtype_size(parsed.dtype);
    if (file.size() % element != 0) {
      throw Error(ErrorCode::kDataLoss, file.path(), {},
                  "has " + std::to_string(file.size()) + " bytes, no whole number of " +
                      std::string(dtype_name(parsed.dtype)),
                  "give the type that the tokens were written with");
    }
    const Rows rows{file.size(), file.size() / parsed.row_bytes()};
    FlatIndexWriter writer(kMagic);
    writer.add(std::span<const Rows>(&rows, 1));
    return writer.finish();
  }

  std::unique_ptr<Reader> open(const fs::path& path, std::span<const std::byte> index,
                               Access access) const override {
    return std::make_unique<TokenReader>(path, index, access);
  }

  std::unique_ptr<Writer> create(const fs::path& path, const WriteOptions&) const override {
    throw Error(ErrorCode::kInvalidArgument, path.string(), {},
                "token files are read in place and not written", "write tar, lmdb or hdf5");
  }

  fs::path data_file(const fs::path& path) const override {
    const std::string& text = path.native();
    return text.substr(0, text.rfind('#'));
  }

  std::string describe(const fs::path& path, bool) const override {
    const TokenPath parsed = parse(path);
    const InputFile file(parsed.file, Access::kRead);
    return nlohmann::ordered_json{{"format", "tokens"},
                                  {"dtype", dtype_name(parsed.dtype)},
                                  {"row", parsed.length},
                                  {"samples", file.size() / parsed.row_bytes()}}
        .dump();
  }
};

}  // namespace

const Format& token_format() {
  static const TokenFormat format;
  return format;
}

bool is_token_path(const fs::path& path) {
  TokenPath parsed;
  std::error_code error;
  return split(path, parsed) && fs::is_regular_file(parsed.file, error);
}

fs::path token_path(const fs::path& file, const std::string& dtype, std::uint64_t length) {
  const auto known = dtype_from_name(dtype);
  const bool integer = known && dtype.find("int") != std::string::npos;
  if (!integer) {
    bad_option("--dtype", "\"" + escape(dtype) + "\" is no integer type",
               "give uint16, int32, uint32 or the like");
  }
  if (length == 0 || length > std::uint64_t{1} << 32) {
    bad_option("--seq-len", std::to_string(length) + " is no length of a row",
               "give the number of tokens in a sample, for example 2048");
  }
  return file.native() + "#" + dtype + ":" + std::to_string(length);
}

}  // namespace shardmill::internal
