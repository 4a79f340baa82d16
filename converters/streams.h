// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/inspect.h>
#include <shardmill/converters/progress.h>
#include <shardmill/converters/verify.h>
#include <shardmill/formats/sample.h>

#include <functional>
#include <string>

namespace shardmill {

/// Datasets that can only be read once, from front to back: "-" (a tar on standard input, also
/// compressed) and compressed tars.

/// True if the DATASET `spec` is such. Reads a few bytes of files, nothing of standard input.
bool is_stream(const std::string& spec);

/// What the callback of visit_stream() gets. `shard` is the file.
using VisitSample =
    std::function<bool(std::uint64_t number, const SampleView& sample, const std::string& shard)>;

/// Calls `visit` for the samples in order, until it returns false. Returns what was odd.
ShardInfo visit_stream(const std::string& spec, const Observer& observer, const VisitSample& visit);

/// Does what inspect() and describe_shard() do for other datasets.
Inspection inspect_stream(const std::string& spec, const Observer& observer = {});
std::string describe_stream(const std::string& spec, bool hash);

}  // namespace shardmill
