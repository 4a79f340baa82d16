// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "converters/sources/sample_source.h"

namespace shardmill::internal {

/// Adds files to the samples of another source: FIELD and a template with {dir} and {stem} of the
/// sample's own file; a relative one is taken from that file's directory. A file that is not there
/// is kNotFound, or the field is absent if `optional`.
SourcePtr pair_source(SourcePtr base, std::vector<std::pair<std::string, std::string>> pairs,
                      bool optional);
SourcePtr attach_pair_source(Bytes flat);

}  // namespace shardmill::internal
