// SPDX-License-Identifier: Apache-2.0
// Compressed archives of any bytes: an end or an error, never a hang.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <zlib.h>

#include "tests/formats/tar_archive.h"
#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

using namespace shardmill::test;

constexpr std::uint64_t kMost = 64 << 20;  // a bomb is given up here, as a full disk would

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string tar = tar_member("a.cls", "1") + tar_member("a.jpg", "image") +
                          tar_member("b.jpg", std::string(5000, 'b')) + kTarEnd;
  // A short text in the other compressions.
  const std::string zstd(
      "\x28\xb5\x2f\xfd\x04\x58\x49\x00\x00\x61\x61\x61\x61\x20\x62\x62\x62\x62\xfc\x57\x7c\xa5",
      22);
  const std::string bzip2(
      "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x72\xa9\x92\xc2\x00\x00\x03\x51\x00\x40\x00\x40\x00"
      "\x30\x00\x20\x00\x30\xcd\x34\x18\xc8\x21\x71\x5e\x2e\xe4\x8a\x70\xa1\x20\xe5\x53\x25\x84",
      45);
  const std::string xz(
      "\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5"
      "\xa3\x01\x00\x08\x61\x61\x61\x61\x20\x62\x62\x62\x62\x00\x00\x00\x00\xa4\xff\x9b\x7b\xc6\x0b"
      "\xb2\x50\x00\x01\x21\x09\x6c\x18\xc5\xd5\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a",
      68);
  const std::string lz4(
      "\x04\x22\x4d\x18\x64\x40\xa7\x09\x00\x00\x80\x61\x61\x61\x61\x20\x62\x62\x62\x62\x00\x00\x00"
      "\x00\x52\xc5\xfb\x05",
      28);
  return {gzip(tar), gzip(tar) + gzip("more"), tar, zstd, bzip2, xz, lz4};
}

bool run(const std::string& input) {
  const MemoryPath file(input);
  bool valid = true;
  try {
    const auto source = open_source(file.path());
    std::vector<std::byte> piece(100'000);
    std::uint64_t total = 0;
    for (std::size_t got; total < kMost && (got = source->read(piece)) > 0;) total += got;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) fail(error.what());
    valid = false;
  }
  try {
    const auto source = open_source(file.path());
    const auto stream = find_format("tar").stream(*source);
    SampleView view;
    std::uint64_t total = 0;
    while (total < kMost && stream->next(view)) {
      for (const FieldView& field : view.fields) total += field.bytes.size() + 1;
    }
  } catch (const Error& error) {
    const bool told =
        error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported;
    if (!told) fail(error.what());
    valid = false;
  }
  return valid;
}

void mend(std::string&, std::uint64_t) {}

}  // namespace shardmill::fuzz
