// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/loader_test_data.h"

#include <shardmill/formats/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace shardmill::test {

namespace {

std::string key_of(std::size_t number) {
  char key[32];
  std::snprintf(key, sizeof key, "key%06zu", number);
  return key;
}

std::vector<int> children_of(int pid) {
  std::vector<int> children;
  const std::string file =
      "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children";
  std::ifstream in(file);
  for (int child; in >> child;) {
    children.push_back(child);
    for (const int grandchild : children_of(child)) children.push_back(grandchild);
  }
  return children;
}

}  // namespace

void write_samples(const std::filesystem::path& path, std::size_t count) {
  const auto writer = find_format("tar").create(path, {});
  const ArrayType array{DType::kFloat32, {2, 3}};
  for (std::size_t number = 0; number < count; ++number) {
    Sample sample(key_of(number));
    sample.add("cls", std::to_string(number % 10));
    sample.add("bin", std::string(number % 7 == 3 ? 0 : 1 + number * 37 % 5000,
                                  static_cast<char>('a' + number % 26)));
    float values[6];
    for (int i = 0; i < 6; ++i)
      values[i] = static_cast<float>(number) + 0.125f * static_cast<float>(i);
    sample.add("npy", std::as_bytes(std::span(values)), &array);
    writer->write(sample.view());
  }
  writer->close();
}

std::string fingerprint(const Batch& batch) {
  std::ostringstream text;
  text << batch.epoch() << '/' << batch.index() << ':';
  for (const std::uint64_t sample : batch.samples()) text << sample << ' ';
  for (const BatchOutput& output : batch.outputs()) {
    text << '|' << output.name << ':';
    for (const std::int64_t offset : output.offsets) text << offset << ',';
    text << std::string_view(reinterpret_cast<const char*>(output.data.data()), output.data.size());
  }
  return text.str();
}

std::vector<std::string> load_all(Loader& loader, const std::vector<std::uint64_t>& epochs) {
  std::vector<std::string> batches;
  for (const std::uint64_t epoch : epochs) {
    for (Batch& batch : loader.epoch(epoch)) {
      batches.push_back(fingerprint(batch));
      // Whoever reuses a slot must write all of it anew.
      for (const BatchOutput& output : batch.outputs()) {
        if (!output.data.empty()) std::memset(output.data.data(), 0xA5, output.data.size());
      }
    }
  }
  return batches;
}

Output random_output(const std::string& name) {
  return computed_output(name, {DType::kUInt64, {}}, [](const RowContext& context) {
    const std::uint64_t value = context.random();
    std::memcpy(context.row.data(), &value, sizeof value);
  });
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::vector<int> descendants() { return children_of(getpid()); }

}  // namespace shardmill::test
