// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>

#include <filesystem>
#include <utility>

#include "loader/internal/engine.h"

namespace shardmill {

namespace {

std::string absolute_spec(const std::string& spec) {
  // Workers must not depend on a later chdir() of the trainer. Patterns are made absolute alike.
  return spec.empty() ? spec : std::filesystem::absolute(spec).lexically_normal().string();
}

}  // namespace

Loader::Loader(std::string dataset, LoaderOptions options)
    : engine_(std::make_unique<internal::Engine>(std::vector{absolute_spec(dataset)},
                                                 std::vector<double>(), std::vector<Dataset>(),
                                                 std::move(options))) {}

Loader::Loader(Dataset dataset, LoaderOptions options)
    : engine_(std::make_unique<internal::Engine>(std::vector{dataset.spec()}, std::vector<double>(),
                                                 std::vector{dataset}, std::move(options))) {}

Loader::Loader(const std::vector<MixturePart>& mixture, LoaderOptions options) {
  std::vector<std::string> specs;
  std::vector<double> weights;
  for (const MixturePart& part : mixture) {
    specs.push_back(absolute_spec(part.dataset));
    weights.push_back(part.weight);
  }
  if (mixture.empty()) {
    throw Error(ErrorCode::kInvalidArgument, {}, "mixture", "names no dataset");
  }
  if (!options.weights.empty() || !options.subset.empty() || options.repeat != 1) {
    throw Error(ErrorCode::kInvalidArgument, {}, "mixture",
                "cannot have weights, subset or repeat besides the datasets' weights");
  }
  engine_ = std::make_unique<internal::Engine>(std::move(specs), std::move(weights),
                                               std::vector<Dataset>(), std::move(options));
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

const Dataset& Loader::dataset() const noexcept { return datasets().front(); }
const std::vector<Dataset>& Loader::datasets() const noexcept { return engine_->datasets(); }
const LoaderOptions& Loader::options() const noexcept { return engine_->options(); }

std::uint64_t Loader::batches_per_epoch() const noexcept {
  return engine_->epoch_start().schedule.batches();
}

std::uint64_t Loader::samples_per_epoch() const noexcept {
  return engine_->epoch_start().schedule.delivered_rows();
}

void Loader::start_epoch(std::uint64_t epoch) { engine_->start_epoch(epoch); }
bool Loader::next(Batch& batch) { return engine_->next(batch); }
bool Loader::ready() const { return engine_->ready(); }
std::string Loader::state() const { return engine_->state(); }
void Loader::resume(std::string_view state) { engine_->resume(state); }
std::uint64_t Loader::current_epoch() const noexcept { return engine_->epoch(); }
Batch Loader::replay(std::uint64_t epoch, std::uint64_t position) {
  return engine_->replay(epoch, position);
}
double Loader::shuffle_quality() const { return engine_->shuffle_quality(); }
LoaderStats Loader::stats() const { return engine_->stats(); }

}  // namespace shardmill
