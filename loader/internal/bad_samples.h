// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>
#include <shardmill/loader/options.h>

#include <cstdint>
#include <string>

namespace shardmill::internal {

/// One sample that is bad.
struct BadSample {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< Global, in the epoch.
  std::uint64_t sample = 0;
  bool replaced = false;
  ErrorInfo error;
};

/// Counts the bad samples that were delivered around, logs them and ends the run when there are
/// too many. Called in the order of the batches, so that the outcome does not depend on workers.
class BadSampleLedger {
 public:
  /// Opens the log; throws what opening it says.
  explicit BadSampleLedger(const LoaderOptions& options);
  ~BadSampleLedger();
  BadSampleLedger(const BadSampleLedger&) = delete;
  BadSampleLedger& operator=(const BadSampleLedger&) = delete;

  /// Begins an epoch of which this rank has `rows` samples.
  void begin_epoch(std::uint64_t rows) noexcept;
  /// Logs `bad` and warns of it. Throws kResourceExhausted, naming count and budget, if it is one
  /// too many.
  void add(const BadSample& bad);
  std::uint64_t total() const noexcept { return total_; }  ///< Since construction.

 private:
  const LoaderOptions& options_;
  int log_ = -1;
  std::uint64_t in_epoch_ = 0;
  std::uint64_t allowed_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace shardmill::internal
