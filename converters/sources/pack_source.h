// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>

#include <cstdint>
#include <optional>
#include <string>

#include "converters/sources/sample_source.h"

namespace shardmill::internal {

/// Tokens of all samples behind each other, each sample followed by `eos` if that is given, cut
/// into rows of `length`; an incomplete row at the end is left out and reported. Tokens are the
/// integers of a sample's first one-dimensional array field, or of a JSON list. `dtype`: of the
/// rows; empty: the arrays' own, uint32 for JSON. Throws kDataLoss naming a sample whose numbers do
/// not fit.
SourcePtr pack_source(SourcePtr base, std::uint64_t length, std::optional<std::int64_t> eos,
                      const std::string& dtype, const Observer& observer);
SourcePtr attach_pack_source(Bytes flat);

}  // namespace shardmill::internal
