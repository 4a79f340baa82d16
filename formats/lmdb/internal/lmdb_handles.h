// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmdb.h>

#include <memory>

namespace shardmill::lmdb {

struct EnvDeleter {
  void operator()(MDB_env* env) const noexcept { mdb_env_close(env); }
};
struct TxnDeleter {
  void operator()(MDB_txn* txn) const noexcept { mdb_txn_abort(txn); }
};

using EnvPtr = std::unique_ptr<MDB_env, EnvDeleter>;
/// Aborts the transaction unless it was released to mdb_txn_commit().
using TxnPtr = std::unique_ptr<MDB_txn, TxnDeleter>;

}  // namespace shardmill::lmdb
