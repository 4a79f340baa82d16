// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/sample_rules.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "formats/internal/member_name.h"

namespace shardmill::tar {

bool SampleRules::take(const Member& member, std::string_view& key, std::string_view& field) {
  const auto leave_out = [&](std::string_view kind) {
    counts_.note(kind, member.name);
    return false;
  };
  if (!member.regular() && member.type != 'S') {
    return leave_out("directories, links or special members left out");
  }
  if (internal::is_metadata_member(member.name)) {
    return leave_out("hidden or metadata members left out");
  }
  if (!split_member_name(member.name, key, field) || field.empty()) {
    return leave_out("members without an extension left out");
  }
  if (member.sparse) {
    throw Error(ErrorCode::kUnsupported, path_, "member \"" + escape(member.name) + "\"",
                "sparse members (holes cut out) cannot be read",
                "unpack the archive and pack it again without --sparse");
  }
  if (std::any_of(field.begin(), field.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
    counts_.note("field names with capital letters taken in lower case", member.name);
  }
  return true;
}

}  // namespace shardmill::tar
