// SPDX-License-Identifier: Apache-2.0
// Other people's real files against what reference tools say of them.
#include <shardmill/loader/decode/payload.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/decode/reference.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;

namespace {

struct Entry {
  std::filesystem::path file;
  std::string kind;
  Json facts;
  std::string expect() const { return facts.value("expect", ""); }
};

std::vector<Entry> read_entries(const std::filesystem::path& zoo) {
  std::vector<Entry> entries;
  std::istringstream lines(read_text(zoo / "expected.tsv"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string path, kind, facts;
    std::getline(fields, path, '\t');
    std::getline(fields, kind, '\t');
    std::getline(fields, facts, '\t');
    if (kind != "npy" && !kind.starts_with("image.")) continue;
    entries.push_back({zoo / path, kind, Json::parse(facts)});
  }
  return entries;
}

std::map<std::string, int> counts;

// Channels as stored: Pillow shows some PNGs with others than the file has.
int stored_channels(const Json& facts) {
  const std::string shape = facts.value("native_shape", "");
  if (shape.empty()) return facts.value("channels", 0);
  return std::stoi(shape.substr(shape.rfind('x') + 1));
}

void check_image(const Json& got, const Json& facts, const ReferencePixels* reference) {
  if (facts.contains("width")) {
    CHECK(got["stored_width"] == facts["width"]);
    CHECK(got["stored_height"] == facts["height"]);
    CHECK(got["channels"] == stored_channels(facts));
    ++counts["sizes"];
  }
  if (facts.contains("bit_depth")) CHECK(got["bit_depth"] == facts["bit_depth"]);
  CHECK(got["orientation"] == facts.value("exif_orientation", 1));
  const bool rgb8 = facts.value("mode", "") == "RGB" && facts.value("bit_depth", 8) == 8;
  if (rgb8) {
    const char* name = facts.contains("oriented_sha256") ? "oriented_sha256" : "pixels_sha256";
    if (facts.contains(name) && (got["orientation"] == 1 || facts.contains("oriented_sha256"))) {
      CHECK(got["rgb_sha256"] == facts[name]);
      ++counts["hashes in the list"];
    }
  }
  if (reference == nullptr) return;
  CHECK(got["width"] == reference->width);
  CHECK(got["height"] == reference->height);
  CHECK(got["rgb_sha256"] == reference->rgb_sha256);
  ++counts["hashes of Pillow"];
}

void check_entry(const Entry& entry, const ReferencePixels* reference) {
  const std::string bytes = read_text(entry.file);
  const std::string expect = entry.expect();
  std::string text;
  const ErrorInfo error = error_of([&] { text = describe_payload(as_bytes(bytes), true); });
  const bool decoded = !text.empty();
  UNSCOPED_INFO(entry.file << ": " << expect << ": " << (decoded ? text : error.cause));
  CHECK((decoded || error.code != ErrorCode::kInternal));
  if (expect.starts_with("reject")) {
    CHECK_FALSE(decoded);
    ++counts["refused"];
  } else if (expect == "ok" || expect == "ok_libjpeg_only") {
    CHECK(decoded);
    if (!decoded) return;
    const Json got = Json::parse(text);
    if (entry.kind == "npy") {
      CHECK(got["shape"] == entry.facts["shape"]);
      CHECK(got["sha256"] == entry.facts["sha256_le_c_order"]);
      ++counts["arrays"];
    } else {
      check_image(got, entry.facts, reference);
    }
  } else {
    ++counts[decoded ? "either way allowed: decoded" : "either way allowed: refused"];
  }
}

}  // namespace

TEST_CASE("The zoo's images and arrays are what reference tools say", "[decode][zoo]") {
  const std::filesystem::path zoo = shared_path("zoo");
  if (zoo.empty()) return skip("no folder of real files");
  const std::vector<Entry> entries = read_entries(zoo);
  std::map<std::string, ReferencePixels> references;
  if (has_reference()) {
    std::vector<std::filesystem::path> files;
    for (const Entry& entry : entries) {
      if (entry.expect() == "ok") files.push_back(entry.file);
    }
    references = reference_full(files);
  }
  for (const Entry& entry : entries) {
    const auto found = references.find(entry.file.string());
    check_entry(entry, found == references.end() ? nullptr : &found->second);
  }
  std::cout << "zoo: " << entries.size() << " lines";
  for (const auto& [what, count] : counts) std::cout << "; " << what << " " << count;
  std::cout << std::endl;
  CHECK(entries.size() > 600);
}
