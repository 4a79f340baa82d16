// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/options.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/corpus.h"
#include "loader/internal/layout.h"
#include "loader/internal/masks.h"

namespace shardmill::internal {

/// Turns samples into rows of a slot: reads, decodes straight into the row, or appends to an
/// arena. Runs in workers, or in the trainer with 0 workers. One thread.
class Producer {
 public:
  /// `options` are resolved (outputs, seed) and must outlive the producer. `worker`: the worker's
  /// row, for messages; -1: the trainer.
  Producer(const Corpus& corpus, const LoaderOptions& options, int worker = -1);
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// Makes row `row` of a slot, all outputs. An error ends up in the row's error cells with path
  /// and sample added, and the next substitute is tried, if the plan has one; nothing is thrown.
  /// Writes the row's status, not its done bit.
  void produce(const SlotControl& slot, const SlotMemory& memory, std::size_t row,
               StatsRow& stats) noexcept;

  /// Packs what a slot's arenas hold, in row order: the seal.
  void pack(const SlotControl& slot, const SlotMemory& memory) noexcept;

  /// Says that sample `n` is likely made next: see Reader::prefetch().
  void prefetch(std::uint64_t n) const noexcept {
    if (n < reader_.size()) reader_.prefetch(n);
  }

  /// Starts the disk on sample `n` if samples have lately come from it.
  void look_ahead(std::uint64_t n) noexcept;

 private:
  std::optional<ErrorInfo> try_sample(const SlotControl& slot, const SlotMemory& memory,
                                      std::size_t row, StatsRow& stats) noexcept;
  std::string shard_path(std::uint64_t sample) const;
  void store_key(std::string_view key);
  void produce_output(std::size_t index, const SampleView& sample);
  void produce_image(std::size_t index, const FieldView& field);
  void produce_mask(std::size_t index, const FieldView& field);
  void produce_geometry(std::size_t index);
  void produce_whole_image(std::size_t index, const FieldView& field);
  void produce_tokens(std::size_t index, const FieldView& field);
  void produce_bytes(std::size_t index, const FieldView& field);
  void produce_absent(std::size_t index);
  void compute(std::size_t index, const SampleView& sample);
  std::byte* reserve(std::size_t index, std::uint64_t length);
  std::size_t image_of(const Output& output) const;
  RowView view_of(std::string_view name) const;
  RowView view_of(const OutputPlace& place, const Output& output) const;
  void watch_usage(StatsRow& stats) noexcept;

  CorpusReader reader_;
  const LoaderOptions& options_;
  const int worker_;
  std::vector<OutputPlace> places_;
  std::vector<std::uint64_t> streams_;  // of Random, one an output
  ImageDecoder decoder_;
  MaskMaker masks_;
  std::vector<ChosenPart> chosen_;  // of the row being made, one an output
  RowContext::FindRow find_row_;
  // The row being made.
  const SlotControl* slot_ = nullptr;
  SlotMemory memory_;
  std::size_t row_ = 0;
  std::size_t output_ = 0;  // the output being made
  bool truncated_ = false;  // one of its images was cut off

  long faults_ = 0;  // major page faults at the last look
  std::uint32_t samples_ = 0;
  bool cold_ = true;  // the last samples came from the disk
};

}  // namespace shardmill::internal
