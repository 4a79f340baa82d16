// SPDX-License-Identifier: Apache-2.0
// Archives of any bytes: by number, from front to back, and described.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tests/formats/tar_archive.h"
#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

using namespace shardmill::test;

const Format& tar() { return find_format("tar"); }

class TextSource final : public Source {
 public:
  explicit TextSource(const std::string& text) : text_(text) {}
  std::size_t read(std::span<std::byte> out) override {
    // Odd pieces, as pipes give them.
    const std::size_t length = std::min({out.size(), text_.size() - at_, std::size_t{1777}});
    std::copy_n(as_bytes(text_).begin() + static_cast<std::ptrdiff_t>(at_), length, out.begin());
    at_ += length;
    return length;
  }
  const std::string& name() const noexcept override { return name_; }

 private:
  const std::string& text_;
  std::string name_ = "memory";
  std::size_t at_ = 0;
};

void add(const SampleView& view, std::string& all) {
  all.append(view.key).append(1, '\0');
  for (const FieldView& field : view.fields) {
    all.append(field.name).append(1, '\0').append(as_text(field.bytes)).append(1, '\0');
  }
}

// Only these two say "this file": anything else would be a fault of the reader.
void expect(const Error& error) {
  if (error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported) return;
  fail(error.what());
}

std::optional<std::string> by_number(const std::string& path, Access access) {
  try {
    OpenShard shard(tar(), path, access);
    std::string all;
    SampleView view;
    for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
      shard.reader().will_need(n);
      shard.reader().read(n, view);
      add(view, all);
    }
    return all;
  } catch (const Error& error) {
    expect(error);
    return std::nullopt;
  }
}

std::optional<std::string> in_order(const std::string& input) {
  try {
    TextSource source(input);
    const auto stream = tar().stream(source);
    std::string all;
    SampleView view;
    while (stream->next(view)) add(view, all);
    return all;
  } catch (const Error& error) {
    expect(error);
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string name = std::string(120, 'n') + ".txt";
  std::string sparse = tar_header("s.bin", tar_octal(512), 'S', "ustar  ");
  return {
      tar_member("a.cls", "1") + tar_member("a.jpg", "image") + tar_member("b.jpg", "") + kTarEnd,
      tar_header("v7.txt", tar_octal(2), '\0', "") + tar_padded("v7") +
          tar_member("././@LongLink", name + '\0', 'L') + tar_member("cut.txt", "long") +
          tar_header("b.txt", tar_base256(3), '0', "ustar  ") + tar_padded("256") + kTarEnd,
      tar_pax(pax_text("size=3"), 'g') + tar_pax(pax_text("path=p/x.txt")) +
          tar_member("s.txt", "pax") + tar_pax(pax_text("size=700")) +
          tar_header("t.txt", tar_octal(0)) + tar_padded(std::string(700, 'Z')) + kTarEnd,
      tar_pax(pax_text("GNU.sparse.name=x.bin") + pax_text("GNU.sparse.size=9")) +
          tar_member("y.bin", "123") + sparse + std::string(512, 'd') + kTarEnd,
      tar_member("d/", "", '5') + tar_member("l", "", '2') + tar_member("._a.jpg", "x") +
          tar_member("a.JPG", "x") + tar_member("c.txt", "x") + tar_member("a.txt", "x")};
}

bool run(const std::string& input) {
  const MemoryPath file(input);
  (void)tar().recognises(file.path());
  const auto mapped = by_number(file.path(), Access::kMap);
  if (by_number(file.path(), Access::kRead) != mapped) fail("mapped and read bytes differ");
  if (in_order(input) != mapped) fail("samples in order and by number differ");
  try {
    tar().describe(file.path(), true);
  } catch (const Error& error) {
    expect(error);
  }
  return mapped.has_value();
}

// Mends the checksum of most blocks: else nearly every input ends at the first header.
void mend(std::string& input, std::uint64_t random) {
  if (random % 8 == 0) return;
  for (std::size_t at = 0; at + 512 <= input.size(); at += 512) {
    if (input.compare(at + 257, 5, "ustar") != 0 && (random >> (at / 512 % 60) & 1) != 0) continue;
    input.replace(at + 148, 8, "        ");
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(input[at + i]);
    char digits[12];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    input.replace(at + 148, 7, std::string(digits, 7));
  }
}

}  // namespace shardmill::fuzz
