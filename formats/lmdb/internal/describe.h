// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats/lmdb/internal/environment.h"

namespace shardmill::lmdb {

/// Lists the databases of an environment as JSON text; with `hash` also all records with the
/// SHA-256 of their values. Walks every tree, so damage of their structure is found.
std::string describe_environment(Environment& environment, bool hash);

}  // namespace shardmill::lmdb
