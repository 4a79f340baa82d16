// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/writer.h>

#include <filesystem>
#include <memory>

namespace shardmill::lmdb {

/// Starts writing the LMDB shard (a directory) that will be called `path`.
std::unique_ptr<Writer> create_writer(const std::filesystem::path& path);

}  // namespace shardmill::lmdb
