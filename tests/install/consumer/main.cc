// SPDX-License-Identifier: Apache-2.0
// Writes a shard and reads it back, with nothing but the installed package.
#include <shardmill/formats/format.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace fs = std::filesystem;

int main() {
  const fs::path folder = fs::current_path() / "consumer-shards";
  fs::remove_all(folder);
  fs::create_directories(folder);
  int wrong = 0;
  for (const shardmill::Format* format : shardmill::all_formats()) {
    if (format->suffix().empty()) continue;
    const fs::path shard = folder / ("shard" + std::string(format->suffix()));
    shardmill::Sample sample("a");
    sample.add("cls", "7");
    const shardmill::FieldSpec field{.name = "cls", .kind = shardmill::FieldKind::kClass};
    auto writer = format->create(shard, {.fields = {field}, .samples = 1});
    writer->write(sample.view());
    writer->close();
    shardmill::OpenShard open(shard);
    wrong += open.format().name() != format->name() || open.reader().size() != 1;
  }
  fs::remove_all(folder);
  std::cout << shardmill::all_formats().size() << " formats, " << wrong << " wrong\n";
  return wrong == 0 && !shardmill::all_formats().empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
