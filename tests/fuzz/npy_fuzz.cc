// SPDX-License-Identifier: Apache-2.0
// Arrays of any bytes: their header, and their elements in canonical form.
#include <shardmill/formats/array.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/sample.h>

#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

std::vector<std::string> seeds() {
  const auto array = [](const char* descr, const char* order, const char* shape,
                        std::size_t bytes) {
    std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': " + order +
                         ", 'shape': " + shape + ", }";
    header.resize(117, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
           std::string(bytes, '\x07');
  };
  return {npy_header({DType::kFloat32, {2, 3}}) + std::string(24, 'f'),
          npy_header({DType::kUInt8, {}}) + "u", array("<i8", "True", "(3, 2)", 48),
          array(">f4", "False", "(5,)", 20), array("|b1", "False", "(0, 7)", 0)};
}

bool run(const std::string& input) {
  const Bytes bytes = as_bytes(input);
  try {
    const NpyView view = parse_npy(bytes, "array.npy", {});
    if (view.data.size() != view.type.bytes() || view.data.size() > input.size()) {
      fail("an array of another size than its shape says");
    }
    std::vector<std::byte> elements(view.data.size());
    canonical_elements(view, elements.data());
    return true;
  } catch (const Error& error) {
    const bool told =
        error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported;
    if (!told) fail(error.what());
    return false;
  }
}

void mend(std::string&, std::uint64_t) {}

}  // namespace shardmill::fuzz
