// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/other_indices.h"

#include <shardmill/formats/error.h>

#include <cstdint>

#include "formats/internal/input_file.h"
#include "formats/tar/internal/sample_rules.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

std::string dali_index(const std::filesystem::path& path) {
  internal::InputFile file(path, Access::kAuto);
  FileInput input(file);
  Walk walk(input);
  SampleRules rules(file.path());
  std::string lines;
  std::string current;
  std::uint64_t samples = 0;
  std::string_view key;
  std::string_view field;
  for (Member member; walk.next(member);) {
    if (!rules.take(member, key, field)) continue;
    if (member.name.find_first_of(" \t\n\v\f\r") != std::string_view::npos) {
      throw Error(ErrorCode::kUnsupported, file.path(), "member \"" + escape(member.name) + "\"",
                  "DALI's index cannot hold names with white space",
                  "rename the file and pack again, or index without --also dali");
    }
    const bool next_sample = samples == 0 || key != current;
    if (next_sample) {
      lines += samples++ == 0 ? "" : "\n";
      current = key;
    } else {
      lines += ' ';
    }
    lines.append(field).append(" ").append(std::to_string(member.data_offset)).append(" ");
    lines.append(std::to_string(member.size)).append(" ").append(member.name);
  }
  return "v1.2 " + std::to_string(samples) + "\n" + lines + (samples == 0 ? "" : "\n");
}

}  // namespace shardmill::tar
