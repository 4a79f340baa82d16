// SPDX-License-Identifier: Apache-2.0
#include "converters/sources/pair_source.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "formats/internal/flat_index.h"
#include "formats/internal/input_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMagic = 0x3152494150485331;  // "1SHPAIR1"

struct Pairs {
  std::vector<std::pair<std::string, std::string>> templates;
  bool optional = false;
};

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

class PairReader : public SampleReader {
 public:
  PairReader(const SampleSource& base, const Pairs& pairs)
      : base_(base), reader_(base.open()), pairs_(pairs), files_(pairs.templates.size()) {}

  void read(std::uint64_t n, SampleView& out) override {
    const fs::path own = named(n);
    reader_->read(n, out);
    join(own, Access::kRead, out);
  }
  void peek(std::uint64_t n, SampleView& out) override {
    const fs::path own = named(n);
    reader_->peek(n, out);
    join(own, Access::kMap, out);
  }
  void will_need(std::uint64_t n) noexcept override { reader_->will_need(n); }
  fs::path file_of(std::uint64_t n) override { return reader_->file_of(n); }

 private:
  fs::path named(std::uint64_t n) {
    fs::path own = reader_->file_of(n);
    if (own.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--pair", {},
                  "the samples of " + base_.name() + " are not files",
                  "pairs need a folder or a list of files");
    }
    return own;
  }

  void join(const fs::path& own, Access access, SampleView& out) {
    fields_.assign(out.fields.begin(), out.fields.end());
    const std::string base = own.filename().string();
    const std::string stem = base.substr(0, base.find('.', 1));
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const auto& [field, pattern] = pairs_.templates[i];
      const fs::path path =
          (own.parent_path() /
           replaced(replaced(pattern, "{dir}", own.parent_path().string()), "{stem}", stem))
              .lexically_normal();
      std::error_code error;
      if (pairs_.optional && !fs::exists(path, error)) continue;
      try {
        files_[i] = std::make_unique<InputFile>(path, access);
        fields_.push_back({field, files_[i]->bytes(0, files_[i]->size()), nullptr});
      } catch (const Error& failure) {
        ErrorInfo info = failure.info();
        info.path = path.string();
        info.place = sample_place(out.key, field);
        if (info.code == ErrorCode::kNotFound) {
          info.remedy = "add the file, or --pair-optional where some samples have none";
        }
        throw Error(std::move(info));
      }
      for (std::size_t f = 0; f + 1 < fields_.size(); ++f) {
        if (fields_[f].name != field) continue;
        throw Error(ErrorCode::kInvalidArgument, "--pair", {},
                    "the samples have a field \"" + field + "\" already", "choose another name");
      }
    }
    std::sort(fields_.begin(), fields_.end(),
              [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
    out.fields = fields_;
  }

  const SampleSource& base_;
  std::unique_ptr<SampleReader> reader_;
  const Pairs& pairs_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<FieldView> fields_;
};

class PairSource : public SampleSource {
 public:
  PairSource(SourcePtr base, Pairs pairs) : base_(std::move(base)), pairs_(std::move(pairs)) {}

  std::uint64_t size() const override { return base_->size(); }
  std::string name() const override { return base_->name(); }
  std::vector<std::string> classes() const override { return base_->classes(); }
  std::vector<std::string> warnings() const override { return base_->warnings(); }
  std::string path_of(std::uint64_t n) const override { return base_->path_of(n); }
  std::string place_of(std::uint64_t n) const override { return base_->place_of(n); }
  std::vector<fs::path> paths() const override { return base_->paths(); }
  std::unique_ptr<SampleReader> open() const override {
    return std::make_unique<PairReader>(*base_, pairs_);
  }
  std::string_view kind() const override { return "pair"; }
  std::vector<std::byte> flat() const override {
    std::string texts;
    append_item(texts, base_->kind());
    append_item(texts, pairs_.optional ? "optional" : "");
    for (const auto& [field, pattern] : pairs_.templates) {
      append_item(texts, field);
      append_item(texts, pattern);
    }
    const std::vector<std::byte> base = base_->flat();
    FlatIndexWriter writer(kMagic);
    writer.add(texts);
    writer.add(std::span<const std::byte>(base));
    return writer.finish();
  }

 private:
  SourcePtr base_;
  Pairs pairs_;
};

}  // namespace

SourcePtr pair_source(SourcePtr base, std::vector<std::pair<std::string, std::string>> pairs,
                      bool optional) {
  return std::make_shared<PairSource>(std::move(base), Pairs{std::move(pairs), optional});
}

SourcePtr attach_pair_source(Bytes flat) {
  const FlatIndexReader reader(flat, kMagic, 2, "the plan");
  const std::vector<std::string> texts = split_items(reader.text(0));
  Pairs pairs;
  pairs.optional = texts.at(1) == "optional";
  for (std::size_t i = 2; i + 1 < texts.size(); i += 2) {
    pairs.templates.emplace_back(texts[i], texts[i + 1]);
  }
  return std::make_shared<PairSource>(attach_source(texts.at(0), reader.get<std::byte>(1)),
                                      std::move(pairs));
}

}  // namespace shardmill::internal
