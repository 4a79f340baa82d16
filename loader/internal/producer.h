// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/options.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/corpus.h"
#include "loader/internal/layout.h"

namespace shardmill::internal {

/// Turns samples into rows of a slot: reads, decodes straight into the row, or appends to the
/// arena. Runs in workers, or in the trainer with 0 workers. One thread.
class Producer {
 public:
  /// `options` are resolved (outputs, seed) and must outlive the producer.
  Producer(const Corpus& corpus, const LoaderOptions& options);

  /// Makes row `row` of a slot, all outputs. An error ends up in the row's error cells with path
  /// and sample added, and the next substitute is tried, if the plan has one; nothing is thrown.
  /// Writes the row's status, not its done bit.
  void produce(const SlotControl& slot, const SlotMemory& memory, std::size_t row,
               StatsRow& stats) noexcept;

  /// Packs the ragged values of a slot in row order and writes their offsets.
  void pack(const SlotControl& slot, const SlotMemory& memory) noexcept;

  /// Starts the disk on sample `n` if samples have lately come from it.
  void look_ahead(std::uint64_t n) noexcept;

 private:
  std::optional<ErrorInfo> try_sample(const SlotControl& slot, const SlotMemory& memory,
                                      std::size_t row, StatsRow& stats) noexcept;
  std::string shard_path(std::uint64_t sample) const;
  void produce_output(const Output& output, const OutputPlace& place, const SampleView& sample,
                      const PlanEntry& plan, const SlotControl& slot, const SlotMemory& memory,
                      std::size_t row);
  void append(const Output& output, const OutputPlace& place, const FieldView& field,
              const SlotControl& slot, const SlotMemory& memory, std::size_t row);
  void watch_faults() noexcept;

  CorpusReader reader_;
  const LoaderOptions& options_;
  std::vector<OutputPlace> places_;
  ImageDecoder decoder_;
  long faults_ = 0;  // major page faults at the last look
  std::uint32_t samples_ = 0;
  bool cold_ = true;  // the last samples came from the disk
};

/// Fills what `options` leave open from the first sample: the outputs if there are none, the types
/// of arrays. Throws if the sample lacks a field or cannot be read.
void resolve_outputs(CorpusReader& reader, LoaderOptions& options);

}  // namespace shardmill::internal
