// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include "loader/internal/corpus.h"

namespace shardmill::internal {

/// Fills what `options` leave open from the first sample: the outputs if there are none, the types
/// of arrays and of images at their own size. Throws if the sample lacks a field or cannot be read.
void resolve_outputs(CorpusReader& reader, LoaderOptions& options);

}  // namespace shardmill::internal
