// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>
#include <shardmill/loader/system/cpus.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <thread>

#include "loader/internal/claims.h"
#include "loader/internal/nursery.h"
#include "loader/internal/nursery_client.h"
#include "loader/internal/order.h"
#include "loader/internal/producer.h"
#include "loader/internal/shared.h"
#include "loader/internal/warn.h"
#include "loader/system/futex.h"

namespace shardmill {

using namespace internal;  // NOLINT: this file is where all of it comes together

namespace {

constexpr std::size_t kLentSlots = 2;  // the batch being trained on, and the one before it
constexpr std::size_t kGrowth = 4;     // times the slots that it starts with the ring may grow
constexpr std::size_t kLeastRoom = 16;
constexpr long kWaitMs = 100;  // between two looks at the nursery while waiting
constexpr std::int64_t kLeaseWarningMs = 1000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string absolute_spec(const std::string& spec) {
  // Workers must not depend on a later chdir() of the trainer. Patterns are made absolute alike.
  return spec.empty() ? spec : std::filesystem::absolute(spec).lexically_normal().string();
}

// A batch that was published and not yet delivered.
struct InFlight {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
};

}  // namespace

struct Loader::State {
  Shared shared;
  pid_t owner = getpid();
  std::unique_ptr<NurseryClient> nursery;  // with workers
  std::unique_ptr<Producer> producer;      // without
  std::vector<OutputPlace> places;
  std::deque<InFlight> in_flight;
  std::vector<PlanEntry> plan;  // scratch
  std::uint64_t epoch = 0;      // of the next batch to deliver
  std::uint64_t index = 0;
  std::uint64_t publish_epoch = 0;  // of the next batch to publish
  std::uint64_t publish_index = 0;
  std::optional<EpochOrder> order;  // of publish_epoch
  std::shared_ptr<Device> device;   // while pinning works
  bool pinning_tried = false;
  bool failed = false;

  State(std::string spec, std::optional<Dataset> dataset, LoaderOptions options);

  const LoaderOptions& options() const { return shared.options; }
  std::uint64_t batches() const;
  bool next(Batch& batch);
  void start_epoch(std::uint64_t epoch);

 private:
  void check_usable() const;
  void open_slots();
  void try_pinning();
  void make_plan();
  void prepare(std::uint32_t slot);
  void publish_ahead();
  std::uint32_t wait_for_slot();
  std::uint32_t produce_inline();
  template <class Wait>
  void guarded(const Wait& wait);
  void wait_for_batch(std::uint32_t slot);
  void drain();
  void advance_publishing();
  void deliver(std::uint32_t slot, Batch& batch);
};

Loader::State::State(std::string spec, std::optional<Dataset> dataset, LoaderOptions given)
    : shared(make_shared_state(std::move(spec), resolve_options(std::move(given)))) {
  shared.dataset = std::move(dataset);
  if (options().num_workers > 0) {
    nursery = std::make_unique<NurseryClient>(shared);
  } else {
    if (!shared.dataset) shared.dataset = Dataset::open(shared.spec, options().access);
    DatasetReader reader(*shared.dataset);
    resolve_outputs(reader, shared.options);
  }
  if (shared.dataset->size() == 0) {
    throw Error(ErrorCode::kInvalidArgument, shared.spec, {}, "the dataset holds no samples",
                "check the path with shardmill inspect");
  }
  open_slots();
  if (nursery) {
    nursery->order_workers(options().num_workers);
    publish_ahead();
  } else {
    producer = std::make_unique<Producer>(*shared.dataset, shared.options);
    shared.stats().workers.store(1);
    shared.stats().rows[0].pid.store(owner);
  }
}

void Loader::State::open_slots() {
  places = place_outputs(options().outputs, options().batch_size);
  const std::size_t ahead = nursery ? static_cast<std::size_t>(options().prefetch) : 0;
  const std::size_t slots = ahead + kLentSlots;
  // Room for more: a consumer that keeps batches makes the ring grow.
  const SlotLayout layout =
      make_layout(places, options().batch_size, std::clamp(kGrowth * slots, kLeastRoom, kMaxSlots),
                  shared.ring->file_bytes());
  const std::uint64_t needed = layout.fixed_bytes * slots;
  const std::uint64_t available = available_memory();
  if (needed > available) {
    throw Error(ErrorCode::kResourceExhausted, shared.spec, "batch memory",
                std::to_string(slots) + " batches of " + std::to_string(layout.fixed_bytes) +
                    " bytes need " + std::to_string(needed) + " bytes, available are " +
                    std::to_string(available),
                "use a smaller batch_size or prefetch");
  }
  shared.control->layout = layout;
  shared.control->slots.store(static_cast<std::uint32_t>(slots));
  shared.control->timeout_ticks =
      static_cast<std::uint64_t>((options().sample_timeout_ms + kTickMs - 1) / kTickMs);
  shared.ring->open(layout, slots);
}

std::uint64_t Loader::State::batches() const {
  const std::uint64_t samples = shared.dataset->size();
  const std::uint64_t size = options().batch_size;
  return options().drop_last ? samples / size : (samples + size - 1) / size;
}

// Fills `plan` with the rows of the next batch to publish.
void Loader::State::make_plan() {
  if (!order) {
    order.emplace(options().shuffle, shared.dataset->size(), *options().seed, publish_epoch);
  }
  const std::uint64_t begin = publish_index * options().batch_size;
  const std::uint64_t end = std::min(begin + options().batch_size, shared.dataset->size());
  plan.clear();
  for (std::uint64_t position = begin; position < end; ++position) {
    plan.push_back({order->sample(position), publish_epoch, position});
  }
}

void Loader::State::advance_publishing() {
  if (++publish_index < batches()) return;
  publish_index = 0;
  ++publish_epoch;
  order.reset();
}

// Makes a slot ready for its next batch: memory that one huge batch took goes back, and pages are
// locked if that is wanted.
void Loader::State::prepare(std::uint32_t slot) {
  if (shared.control->layout.ragged > 0) {
    const SlotControl control = shared.control.slot(slot);
    std::uint64_t used[kMaxRagged];
    for (std::size_t i = 0; i < kMaxRagged; ++i) used[i] = control.header->arena_used[i].load();
    shared.ring->trim(slot, used);
  }
  if (!device) return;
  const std::string reason = shared.ring->pin(slot, device);
  if (reason.empty()) return;
  warn_once("cannot page-lock batch memory: " + reason + "; going on with ordinary memory");
  device.reset();
}

// Publishes batches, also of the next epoch, while fewer than `prefetch` are in flight and slots
// are free.
void Loader::State::publish_ahead() {
  while (batches() > 0 && in_flight.size() < static_cast<std::size_t>(options().prefetch)) {
    const std::optional<std::uint32_t> slot = shared.ring->free_slot();
    if (!slot) return;
    prepare(*slot);
    make_plan();
    publish(shared.control, *slot, plan);
    in_flight.push_back({*slot, publish_epoch, publish_index});
    advance_publishing();
  }
}

// Returns a slot although all are lent: a new one, or one that is let go in time.
std::uint32_t Loader::State::wait_for_slot() {
  if (const auto slot = shared.ring->free_slot()) return *slot;
  if (const auto slot = shared.ring->grow()) {
    shared.control->slots.store(static_cast<std::uint32_t>(shared.ring->slots()));
    return *slot;
  }
  const std::int64_t limit = options().lease_timeout_ms;
  const std::int64_t first = std::min(limit, kLeaseWarningMs);
  if (!shared.ring->wait_for_free(first)) {
    warn_once("all " + std::to_string(shared.ring->slots()) +
              " batches are still held by the training program; next() waits for one to be let go");
    shared.ring->wait_for_free(limit - first);
  }
  if (const auto slot = shared.ring->free_slot()) return *slot;
  throw Error(ErrorCode::kResourceExhausted, shared.spec, "batch memory",
              "all " + std::to_string(shared.ring->slots()) +
                  " batches are held by the training program and none was let go within "
                  "lease_timeout_ms = " +
                  std::to_string(limit),
              "drop batches and tensors made of them, or copy what you keep");
}

void Loader::State::try_pinning() {
  pinning_tried = true;
  if (!options().pin_memory) return;
  device = current_device();
  if (const std::string reason = device->unavailable(); !reason.empty()) {
    warn_once("pin_memory is on, but batches are not page-locked: " + reason);
    device.reset();
    return;
  }
  for (std::uint32_t slot = 0; slot < shared.ring->slots() && device; ++slot) prepare(slot);
}

bool Loader::State::next(Batch& batch) {
  check_usable();
  batch = Batch();
  if (!pinning_tried) try_pinning();
  if (index >= batches()) return false;
  std::uint32_t slot = 0;
  if (nursery) {
    publish_ahead();
    if (in_flight.empty()) {
      shared.ring->take_back(wait_for_slot());
      publish_ahead();
    }
    slot = in_flight.front().slot;
    wait_for_batch(slot);
    in_flight.pop_front();
    shared.control->oldest.fetch_add(1);
  } else {
    slot = produce_inline();
  }
  ++index;
  deliver(slot, batch);
  if (nursery) publish_ahead();
  return true;
}

// Makes the next batch in this process.
std::uint32_t Loader::State::produce_inline() {
  const std::uint32_t slot = wait_for_slot();
  prepare(slot);
  make_plan();
  advance_publishing();
  const SlotControl control = shared.control.slot(slot);
  control.header->rows = static_cast<std::uint32_t>(plan.size());
  for (auto& used : control.header->arena_used) used.store(0, std::memory_order_relaxed);
  const std::uint64_t begin = now_ns();  // the consumer waits for all of it
  for (std::size_t row = 0; row < plan.size(); ++row) {
    control.plan[row] = plan[row];
    producer->produce(control, shared.ring->memory(slot), row, shared.stats().rows[0]);
  }
  producer->pack(control, shared.ring->memory(slot));
  shared.stats().wait_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
  return slot;
}

// Waits for the workers. What is thrown meanwhile ends the run: the workers are stopped at once.
template <class Wait>
void Loader::State::guarded(const Wait& wait) {
  try {
    wait();
  } catch (...) {
    failed = true;
    nursery.reset();
    throw;
  }
}

void Loader::State::wait_for_batch(std::uint32_t slot) {
  const std::uint64_t begin = now_ns();
  guarded([&] {
    nursery->check_reports();
    while (true) {
      const std::uint32_t seen = shared.control->ready.load();
      if (complete(shared.control, slot)) break;
      nursery->check_alive();
      futex_wait(shared.control->ready, seen, kWaitMs);
    }
  });
  shared.stats().wait_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
}

void Loader::State::deliver(std::uint32_t slot, Batch& batch) {
  const SlotControl control = shared.control.slot(slot);
  const std::size_t rows = control.header->rows;
  auto lease = std::make_shared<SlotLease>(shared.ring, slot);
  for (std::size_t row = 0; row < rows; ++row) {
    if (control.status[row].load() != RowStatus::kGood) throw Error(control.errors[row].load());
  }
  const SlotMemory memory = shared.ring->memory(slot);
  batch.epoch_ = epoch;
  batch.index_ = index - 1;
  for (std::size_t row = 0; row < rows; ++row) batch.samples_.push_back(control.plan[row].sample);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Output& output = options().outputs[i];
    const OutputPlace& place = places[i];
    BatchOutput made;
    made.name = output.name;
    made.row = output.row;
    if (place.ragged >= 0) {
      made.ragged = true;
      made.offsets = {memory.offsets(place), rows + 1};
      made.data = {memory.packed(place.ragged), static_cast<std::size_t>(made.offsets[rows])};
    } else {
      made.data = {memory.row(place, 0), rows * place.row_bytes};
    }
    batch.outputs_.push_back(made);
  }
  batch.lease_ = std::move(lease);
  shared.stats().batches.fetch_add(1, std::memory_order_relaxed);
  shared.stats().samples.fetch_add(rows, std::memory_order_relaxed);
}

// Gives up all batches in flight and waits until nobody works on them.
void Loader::State::drain() {
  shared.control->oldest.store(shared.control->published.load());
  for (const InFlight& batch : in_flight) {
    guarded([&] {
      while (!abandon(shared.control, batch.slot)) {
        nursery->check_alive();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    shared.ring->take_back(batch.slot);
  }
  in_flight.clear();
}

void Loader::State::check_usable() const {
  if (!failed) return;
  throw Error(ErrorCode::kInternal, shared.spec, {}, "the loader has failed before",
              "construct a new one");
}

void Loader::State::start_epoch(std::uint64_t wanted) {
  check_usable();
  const bool prepared = in_flight.empty()
                            ? publish_epoch == wanted && publish_index == 0
                            : in_flight.front().epoch == wanted && in_flight.front().index == 0;
  if (!prepared) {
    if (nursery) drain();
    publish_epoch = wanted;
    publish_index = 0;
    order.reset();
  }
  epoch = wanted;
  index = 0;
  if (nursery) {
    nursery->new_epoch();
    publish_ahead();
  }
}

Loader::Loader(std::string dataset, LoaderOptions options)
    : state_(std::make_unique<State>(absolute_spec(dataset), std::nullopt, std::move(options))) {}

Loader::Loader(Dataset dataset, LoaderOptions options)
    : state_(std::make_unique<State>(dataset.spec(), dataset, std::move(options))) {}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

const Dataset& Loader::dataset() const noexcept { return *state_->shared.dataset; }
const LoaderOptions& Loader::options() const noexcept { return state_->options(); }
std::uint64_t Loader::batches_per_epoch() const noexcept { return state_->batches(); }

std::uint64_t Loader::samples_per_epoch() const noexcept {
  const std::uint64_t samples = dataset().size();
  return options().drop_last ? batches_per_epoch() * options().batch_size : samples;
}

void Loader::start_epoch(std::uint64_t epoch) { state_->start_epoch(epoch); }
bool Loader::next(Batch& batch) { return state_->next(batch); }

LoaderStats Loader::stats() const {
  const StatsFile& file = state_->shared.stats();
  LoaderStats stats;
  for (std::size_t row = 0; row < file.workers.load(); ++row) {
    const StatsRow& from = file.rows[row];
    stats.workers.push_back({from.pid.load(), from.samples.load(), from.bytes.load(),
                             from.read_ns.load(), from.produce_ns.load(), from.idle_ns.load()});
  }
  stats.batches = file.batches.load();
  stats.samples = file.samples.load();
  stats.wait_ns = file.wait_ns.load();
  stats.deaths = state_->shared.control->deaths.load();
  stats.redone = state_->shared.control->redone.load();
  stats.pinned = state_->device != nullptr;
  return stats;
}

}  // namespace shardmill
