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

#include "loader/internal/bad_samples.h"
#include "loader/internal/batch_outputs.h"
#include "loader/internal/claims.h"
#include "loader/internal/drop_rows.h"
#include "loader/internal/infer.h"
#include "loader/internal/nursery.h"
#include "loader/internal/nursery_client.h"
#include "loader/internal/order.h"
#include "loader/internal/producer.h"
#include "loader/internal/read_stats.h"
#include "loader/internal/resume.h"
#include "loader/internal/schedule.h"
#include "loader/internal/shared.h"
#include "loader/internal/thread_crew.h"
#include "loader/internal/warn.h"
#include "loader/internal/worker_pacer.h"
#include "loader/system/futex.h"

namespace shardmill {

using namespace internal;  // NOLINT: this file is where all of it comes together

namespace {

constexpr std::size_t kLentSlots = 2;  // the batch being trained on, and the one before it
constexpr std::size_t kGrowth = 4;     // times the slots that it starts with the ring may grow
constexpr std::size_t kLeastRoom = 16;
constexpr long kWaitMs = 100;  // between two looks at the nursery while waiting
constexpr std::int64_t kLeaseWarningMs = 1000;
constexpr std::uint64_t kSubstituteStream = ~std::uint64_t{1};  // of Random

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string absolute_spec(const std::string& spec) {
  // Workers must not depend on a later chdir() of the trainer. Patterns are made absolute alike.
  return spec.empty() ? spec : std::filesystem::absolute(spec).lexically_normal().string();
}

// An error as people read it: with the number of the worker that met it.
ErrorInfo error_of(const RowErrorCell& cell) {
  ErrorInfo info = cell.error.load();
  if (cell.worker >= 0) info.cause += " (worker " + std::to_string(cell.worker) + ")";
  return info;
}

// A place in the sequence of batches.
struct Place {
  std::uint64_t epoch = 0;
  std::uint64_t lanes = 1;  // world size when the epoch was begun
  Schedule schedule;
  std::uint64_t batch = 0;  // the next one, counted from the schedule's cursor

  bool at_end() const { return batch >= schedule.batches(); }
  bool at_start_of(std::uint64_t wanted) const { return epoch == wanted && batch == 0; }
};

// A batch that was published and not yet delivered.
struct InFlight {
  std::uint32_t slot = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
};

}  // namespace

struct Loader::State {
  Shared shared;
  pid_t owner = getpid();
  std::unique_ptr<Crew> crew;          // with workers
  std::unique_ptr<WorkerPacer> pacer;  // with num_workers = kAuto
  std::unique_ptr<Producer> producer;  // without
  std::vector<OutputPlace> places;
  std::deque<InFlight> in_flight;
  std::vector<PlanEntry> plan;  // scratch
  std::optional<SampleOrder> order;
  std::optional<BadSampleLedger> ledger;
  Place delivering;  // the next batch to deliver
  Place publishing;  // the next batch to publish
  bool seed_given = false;
  std::string identity;             // of the dataset, once asked for
  std::unique_ptr<State> replayer;  // makes single rows
  std::shared_ptr<Device> device;   // while pinning works
  bool pinning_tried = false;
  bool failed = false;

  State(std::vector<std::string> specs, std::vector<double> weights, std::vector<Dataset> datasets,
        LoaderOptions options);

  const LoaderOptions& options() const { return shared.options; }
  Place start_of(std::uint64_t epoch) const;
  bool next(Batch& batch);
  void start_epoch(std::uint64_t epoch);
  std::string state();
  void resume(std::string_view text);
  Batch replay(std::uint64_t epoch, std::uint64_t position);

 private:
  void check_usable() const;
  void warn_of_oddities() const;
  void check_datasets();
  void open_slots();
  void try_pinning();
  void make_plan(const Place& place);
  void plan_position(std::uint64_t epoch, std::uint64_t position);
  void set_place(const Place& place);
  void prepare(std::uint32_t slot);
  void publish_ahead();
  std::uint32_t wait_for_slot();
  std::uint32_t take_prepared();
  std::uint32_t produce_plan();
  template <class Wait>
  void guarded(const Wait& wait);
  void wait_for_batch(std::uint32_t slot);
  void drain();
  bool deliver(std::uint32_t slot, Batch& batch);
  bool settle_bad_samples(const SlotControl& control);
};

Loader::State::State(std::vector<std::string> specs, std::vector<double> weights,
                     std::vector<Dataset> datasets, LoaderOptions given)
    : seed_given(given.seed.has_value()) {
  const bool adapt = given.num_workers == kAuto;
  shared = make_shared_state(std::move(specs), resolve_options(std::move(given)));
  ledger.emplace(options());
  shared.weights = std::move(weights);
  if (!datasets.empty()) shared.corpus = Corpus(std::move(datasets));
  const bool processes = options().num_workers > 0 && options().workers == Workers::kProcesses;
  if (processes) {
    crew = std::make_unique<NurseryClient>(shared);
  } else {
    shared.corpus = open_corpus(shared);
    CorpusReader reader(shared.corpus);
    resolve_outputs(reader, shared.options);
  }
  check_datasets();
  if (!processes && options().num_workers > 0) crew = std::make_unique<ThreadCrew>(shared);
  open_slots();
  delivering = publishing = start_of(0);
  warn_of_oddities();
  ledger->begin_epoch(delivering.schedule.delivered_rows());
  if (crew) {
    if (adapt) {
      const auto order_workers = [this](int count) { crew->order_workers(count); };
      const int most = options().max_workers;
      const auto rows =
          static_cast<int>(std::min<std::uint64_t>(shared.corpus.size(), kMaxWorkers));
      const int first = std::min(options().num_workers, rows);
      pacer =
          std::make_unique<WorkerPacer>(shared.stats(), first, cpu_share(), most, order_workers);
      shared.options.num_workers = first;
    } else {
      crew->order_workers(options().num_workers);
    }
    publish_ahead();
  } else {
    producer = std::make_unique<Producer>(shared.corpus, shared.options);
    shared.stats().workers.store(1);
    shared.stats().rows[0].pid.store(owner);
  }
}

// Refuses datasets that cannot be loaded as asked, and sets the order of the others' samples.
void Loader::State::check_datasets() {
  std::vector<std::uint64_t> sizes;
  FormatTraits traits;
  for (const Dataset& dataset : shared.corpus.datasets()) {
    sizes.push_back(dataset.size());
    if (dataset.size() == 0) {
      throw Error(ErrorCode::kInvalidArgument, dataset.spec(), {}, "the dataset holds no samples",
                  "check the path with shardmill inspect");
    }
    traits.samples_per_read =
        std::max(traits.samples_per_read, dataset.format().traits().samples_per_read);
    if (options().workers == Workers::kThreads && !dataset.format().traits().threads) {
      throw Error(ErrorCode::kInvalidArgument, dataset.spec(), "loader option workers",
                  "are threads, but the format " + std::string(dataset.format().name()) +
                      " cannot be read by several threads of one process",
                  "use worker processes");
    }
  }
  order.emplace(options(), sizes, shared.weights, traits);
}

void Loader::State::open_slots() {
  places = place_outputs(options().outputs, options().batch_size);
  const std::size_t ahead = crew ? static_cast<std::size_t>(options().prefetch) : 0;
  const std::size_t slots = ahead + kLentSlots;
  // Room for more: a consumer that keeps batches makes the ring grow.
  const SlotLayout layout =
      make_layout(options().outputs, options().batch_size,
                  std::clamp(kGrowth * slots, kLeastRoom, kMaxSlots), shared.ring->file_bytes());
  const std::uint64_t needed = layout.fixed_bytes * slots;
  const std::uint64_t available = memory_share();
  const std::uint64_t given = options().max_memory;
  if (needed > (given > 0 ? std::min(given, available) : available)) {
    throw Error(ErrorCode::kResourceExhausted, shared.spec(), "batch memory",
                std::to_string(slots) + " batches of " + std::to_string(layout.fixed_bytes) +
                    " bytes need " + std::to_string(needed) + " bytes, available are " +
                    std::to_string(available) +
                    (given > 0 ? ", max_memory is " + std::to_string(given) : ""),
                "use a smaller batch_size or prefetch");
  }
  const std::uint64_t budget = std::max(needed, given > 0 ? given : available / 2);
  shared.control->layout = layout;
  shared.control->slots.store(static_cast<std::uint32_t>(slots));
  shared.control->timeout_ticks =
      static_cast<std::uint64_t>((options().sample_timeout_ms + kTickMs - 1) / kTickMs);
  shared.ring->open(layout, slots, budget);
  shared.stats().slots.store(static_cast<std::uint32_t>(slots));
  shared.stats().slot_bytes.store(layout.fixed_bytes);
}

void Loader::State::warn_of_oddities() const {
  if (delivering.schedule.batches() == 0) {
    warn_once("this rank has " + std::to_string(delivering.schedule.rows()) +
              " samples in an epoch and so no batch of " + std::to_string(options().batch_size));
  }
  if (options().bad_samples == BadSamples::kSkip && options().world_size > 1) {
    warn_once(
        "bad samples are skipped: ranks may get batches of different size; use kReplace "
        "where they must stay in step");
  }
}

// Returns the beginning of an epoch.
Place Loader::State::start_of(std::uint64_t epoch) const {
  Place place;
  place.epoch = epoch;
  place.lanes = static_cast<std::uint64_t>(options().world_size);
  place.schedule = {.total = order->positions(),
                    .cursor = 0,
                    .rank = static_cast<std::uint64_t>(options().rank),
                    .world_size = static_cast<std::uint64_t>(options().world_size),
                    .batch_size = options().batch_size,
                    .uneven = options().uneven,
                    .drop_last = options().drop_last};
  return place;
}

// Fills `plan` with the rows of the batch at `place`.
void Loader::State::make_plan(const Place& place) {
  order->begin(*options().seed, place.epoch, place.lanes);
  plan.clear();
  const std::uint64_t rows = place.schedule.rows_of(place.batch);
  for (std::uint64_t row = 0; row < rows; ++row) {
    plan_position(place.epoch, place.schedule.position(place.batch, row));
  }
}

// Appends the row at a global position to `plan`. REQUIRES: the order is that of `epoch`.
void Loader::State::plan_position(std::uint64_t epoch, std::uint64_t position) {
  const std::uint64_t positions = order->positions();
  PlanEntry& entry = plan.emplace_back();
  entry.seed = *options().seed;
  entry.epoch = epoch;
  entry.position = position;
  entry.sample[0] = order->sample(position % positions);
  entry.substitutes = 0;
  if (options().bad_samples != BadSamples::kReplace) return;
  Random random(entry.seed, epoch, position, kSubstituteStream);
  std::uint64_t* const end = entry.sample + 1 + kSubstitutes;
  for (std::uint64_t* next = entry.sample + 1; next != end; ++next, ++entry.substitutes) {
    // A sample of its own, where there are enough of them.
    for (std::size_t i = 0; i <= kSubstitutes; ++i) {
      *next = order->any_sample(random);
      if (std::find(entry.sample, next, *next) == next) break;
    }
  }
}

// Makes a slot ready for its next batch: memory that one huge batch took goes back, and pages are
// locked if that is wanted.
void Loader::State::prepare(std::uint32_t slot) {
  if (shared.control->layout.arenas > 0) {
    const SlotControl control = shared.control.slot(slot);
    std::uint64_t used[kMaxArenas];
    for (std::size_t i = 0; i < kMaxArenas; ++i) {
      used[i] =
          std::max(control.header->arena_used[i].load(), control.header->packed_used[i].load());
    }
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
  while (in_flight.size() < static_cast<std::size_t>(options().prefetch)) {
    if (publishing.at_end()) publishing = start_of(publishing.epoch + 1);
    if (publishing.at_end()) return;  // epochs without any batch
    const std::optional<std::uint32_t> slot = shared.ring->free_slot();
    if (!slot) return;
    prepare(*slot);
    make_plan(publishing);
    publish(shared.control, *slot, plan);
    in_flight.push_back({*slot, publishing.epoch, publishing.batch});
    ++publishing.batch;
  }
}

// Returns a slot although all are lent: a new one, or one that is let go in time.
std::uint32_t Loader::State::wait_for_slot() {
  if (const auto slot = shared.ring->free_slot()) return *slot;
  if (const auto slot = shared.ring->grow()) {
    shared.control->slots.store(static_cast<std::uint32_t>(shared.ring->slots()));
    shared.stats().slots.store(static_cast<std::uint32_t>(shared.ring->slots()));
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
  throw Error(ErrorCode::kResourceExhausted, shared.spec(), "batch memory",
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
  if (pacer) pacer->batch_asked();
  while (!delivering.at_end()) {
    std::uint32_t slot = 0;
    if (crew) {
      slot = take_prepared();
    } else {
      make_plan(delivering);
      slot = produce_plan();
    }
    ++delivering.batch;
    const bool any = deliver(slot, batch);
    if (crew) publish_ahead();
    if (pacer) pacer->batch_delivered();
    if (any) return true;
  }
  return false;
}

// Waits for the oldest batch in flight.
std::uint32_t Loader::State::take_prepared() {
  publish_ahead();
  if (in_flight.empty()) {
    shared.ring->take_back(wait_for_slot());
    publish_ahead();
  }
  const std::uint32_t slot = in_flight.front().slot;
  wait_for_batch(slot);
  in_flight.pop_front();
  shared.control->oldest.fetch_add(1);
  return slot;
}

// Makes the rows of `plan` in this process.
std::uint32_t Loader::State::produce_plan() {
  const std::uint32_t slot = wait_for_slot();
  prepare(slot);
  const SlotControl control = shared.control.slot(slot);
  control.header->rows = static_cast<std::uint32_t>(plan.size());
  control.reset_arenas();
  const std::uint64_t begin = now_ns();  // the consumer waits for all of it
  for (std::size_t row = 0; row < plan.size(); ++row) {
    control.plan[row] = plan[row];
    control.failed[row].store(0, std::memory_order_relaxed);
    producer->produce(control, shared.ring->memory(slot), row, shared.stats().rows[0]);
  }
  producer->pack(control, shared.ring->memory(slot));
  add(shared.stats().wait_ns, now_ns() - begin);
  return slot;
}

// Waits for the workers. What is thrown meanwhile ends the run: the workers are stopped at once.
template <class Wait>
void Loader::State::guarded(const Wait& wait) {
  try {
    wait();
  } catch (...) {
    failed = true;
    pacer.reset();
    crew.reset();
    throw;
  }
}

void Loader::State::wait_for_batch(std::uint32_t slot) {
  const std::uint64_t begin = now_ns();
  guarded([&] {
    crew->check_reports();
    while (true) {
      const std::uint32_t seen = shared.control->ready.load();
      if (complete(shared.control, slot)) break;
      crew->check_alive();
      futex_wait(shared.control->ready, seen, kWaitMs);
    }
  });
  add(shared.stats().wait_ns, now_ns() - begin);
}

// Lends the batch in `slot`. False if all of its rows were skipped.
bool Loader::State::deliver(std::uint32_t slot, Batch& batch) {
  const SlotControl control = shared.control.slot(slot);
  auto lease = std::make_shared<SlotLease>(shared.ring, slot);  // gives it back whatever happens
  const SlotMemory memory = shared.ring->memory(slot);
  if (settle_bad_samples(control)) drop_bad_rows(control, memory, options().outputs, places);
  const std::size_t rows = control.header->rows;
  if (rows == 0) return false;
  batch.epoch_ = delivering.epoch;
  batch.index_ = delivering.schedule.index(delivering.batch - 1);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.samples_.push_back(control.sample(row));
    batch.positions_.push_back(control.plan[row].position);
    batch.valid_.push_back(control.plan[row].position < delivering.schedule.total);
  }
  batch.outputs_ = batch_outputs(options().outputs, places, control, memory, rows);
  batch.lease_ = std::move(lease);
  add(shared.stats().batches, 1);
  shared.stats().in_flight.store(static_cast<std::uint32_t>(in_flight.size()),
                                 std::memory_order_relaxed);
  shared.stats().epoch.store(batch.epoch_, std::memory_order_relaxed);
  add(shared.stats().samples, rows);
  return true;
}

// Deals with the samples that could not be delivered, in row order. Returns true if rows are to be
// dropped.
bool Loader::State::settle_bad_samples(const SlotControl& control) {
  bool dropped = false;
  for (std::size_t row = 0; row < control.header->rows; ++row) {
    const std::size_t failed = control.failed[row].load(std::memory_order_relaxed);
    if (failed == 0) continue;
    const PlanEntry& entry = control.plan[row];
    const bool good = control.status[row].load() == RowStatus::kGood;
    if (!good && options().bad_samples == BadSamples::kFail) {
      throw Error(error_of(control.error(row, failed - 1)));
    }
    for (std::size_t i = 0; i < failed; ++i) {
      ledger->add({entry.epoch, entry.position, entry.sample[i], good || i + 1 < failed,
                   error_of(control.error(row, i))});
    }
    if (!good && options().bad_samples == BadSamples::kReplace) {
      ErrorInfo info = error_of(control.error(row, failed - 1));
      info.cause += "; so were the " + std::to_string(failed - 1) + " samples tried before it";
      throw Error(info);
    }
    dropped |= !good;
  }
  return dropped;
}

// Gives up all batches in flight and waits until nobody works on them.
void Loader::State::drain() {
  shared.control->oldest.store(shared.control->published.load());
  for (const InFlight& batch : in_flight) {
    guarded([&] {
      while (!abandon(shared.control, batch.slot)) {
        crew->check_alive();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    shared.ring->take_back(batch.slot);
  }
  in_flight.clear();
}

void Loader::State::check_usable() const {
  if (!failed) return;
  throw Error(ErrorCode::kInternal, shared.spec(), {}, "the loader has failed before",
              "construct a new one");
}

void Loader::State::start_epoch(std::uint64_t wanted) {
  check_usable();
  if (delivering.at_start_of(wanted)) return;  // also behind resume()
  const bool prepared = in_flight.empty()
                            ? publishing.at_start_of(wanted)
                            : in_flight.front().epoch == wanted && in_flight.front().batch == 0;
  if (prepared) {
    delivering = start_of(wanted);
    ledger->begin_epoch(delivering.schedule.delivered_rows());
    if (crew) crew->new_epoch();
  } else {
    set_place(start_of(wanted));
  }
  if (crew) publish_ahead();
}

// Gives up what was prepared and goes on at `place`.
void Loader::State::set_place(const Place& place) {
  if (crew) {
    drain();
    crew->new_epoch();
  }
  delivering = publishing = place;
  ledger->begin_epoch(delivering.schedule.delivered_rows());
}

std::string Loader::State::state() {
  if (identity.empty()) identity = dataset_identity(shared.corpus.datasets());
  return SavedState{
      *options().seed,  delivering.epoch, delivering.schedule.cursor_after(delivering.batch),
      delivering.lanes, identity,         hex(order->digest())}
      .to_json();
}

void Loader::State::resume(std::string_view text) {
  check_usable();
  const SavedState saved = SavedState::from_json(text);
  const auto refuse = [&](const std::string& cause, const std::string& remedy) {
    throw Error(ErrorCode::kInvalidArgument, shared.spec(), "loader state", cause, remedy);
  };
  if (identity.empty()) identity = dataset_identity(shared.corpus.datasets());
  if (saved.dataset != identity) {
    refuse("was taken from another dataset (" + saved.dataset + ", this one is " + identity +
               "): a shard has another name, size or number of samples",
           "load the dataset that the run began with");
  }
  if (saved.options != hex(order->digest())) {
    refuse("was taken with another order of samples",
           "use the shuffle, block_size, block_window, subset, repeat, weights and "
           "samples_per_epoch that the run began with");
  }
  if (seed_given && saved.seed != *options().seed) {
    refuse("was taken with seed " + std::to_string(saved.seed) + ", the option gives " +
               std::to_string(*options().seed),
           "leave the option open, or give the same");
  }
  if (saved.cursor > order->positions()) {
    refuse("stands at sample " + std::to_string(saved.cursor) + " of an epoch of " +
               std::to_string(order->positions()),
           "pass the text that Loader::state() returned");
  }
  shared.options.seed = saved.seed;
  Place place = start_of(saved.epoch);
  place.lanes = saved.lanes;
  place.schedule.cursor = saved.cursor;
  set_place(place);
  if (crew) publish_ahead();
}

Batch Loader::State::replay(std::uint64_t epoch, std::uint64_t position) {
  if (!replayer) {
    LoaderOptions single = options();
    single.num_workers = 0;
    single.prefetch = kAuto;
    single.sample_timeout_ms = 0;
    single.batch_size = 1;
    single.pin_memory = false;
    single.bad_sample_log.clear();
    if (single.bad_samples == BadSamples::kSkip) single.bad_samples = BadSamples::kFail;
    replayer = std::make_unique<State>(shared.specs, shared.weights, shared.corpus.datasets(),
                                       std::move(single));
  }
  const std::uint64_t padded =
      order->positions() + static_cast<std::uint64_t>(options().world_size);
  if (position >= padded) {
    throw Error(ErrorCode::kInvalidArgument, shared.spec(), "position " + std::to_string(position),
                "an epoch has " + std::to_string(order->positions()) + " positions");
  }
  State& one = *replayer;
  one.shared.options.seed = *options().seed;
  one.delivering.epoch = epoch;
  one.delivering.batch = 1;
  one.ledger->begin_epoch(kSubstitutes + 1);
  one.order->begin(*options().seed, epoch,
                   epoch == delivering.epoch ? delivering.lanes : start_of(epoch).lanes);
  one.plan.clear();
  one.plan_position(epoch, position);
  Batch batch;
  one.deliver(one.produce_plan(), batch);
  return batch;
}

Loader::Loader(std::string dataset, LoaderOptions options)
    : state_(std::make_unique<State>(std::vector{absolute_spec(dataset)}, std::vector<double>(),
                                     std::vector<Dataset>(), std::move(options))) {}

Loader::Loader(Dataset dataset, LoaderOptions options)
    : state_(std::make_unique<State>(std::vector{dataset.spec()}, std::vector<double>(),
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
  state_ = std::make_unique<State>(std::move(specs), std::move(weights), std::vector<Dataset>(),
                                   std::move(options));
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

const Dataset& Loader::dataset() const noexcept { return datasets().front(); }
const std::vector<Dataset>& Loader::datasets() const noexcept {
  return state_->shared.corpus.datasets();
}
const LoaderOptions& Loader::options() const noexcept { return state_->options(); }

std::uint64_t Loader::batches_per_epoch() const noexcept {
  return state_->start_of(0).schedule.batches();
}

std::uint64_t Loader::samples_per_epoch() const noexcept {
  return state_->start_of(0).schedule.delivered_rows();
}

std::string Loader::state() const { return state_->state(); }
void Loader::resume(std::string_view state) { state_->resume(state); }
std::uint64_t Loader::current_epoch() const noexcept { return state_->delivering.epoch; }
Batch Loader::replay(std::uint64_t epoch, std::uint64_t position) {
  return state_->replay(epoch, position);
}

double Loader::shuffle_quality() const {
  SampleOrder& order = *state_->order;
  order.begin(*state_->options().seed, state_->delivering.epoch, state_->delivering.lanes);
  return order.quality(state_->options().batch_size);
}

void Loader::start_epoch(std::uint64_t epoch) { state_->start_epoch(epoch); }
bool Loader::next(Batch& batch) { return state_->next(batch); }

bool Loader::ready() const {
  const State& state = *state_;
  return !state.delivering.at_end() && !state.in_flight.empty() &&
         complete(state.shared.control, state.in_flight.front().slot);
}

LoaderStats Loader::stats() const {
  LoaderStats stats = read_stats(state_->shared.stats());
  read_deaths(*state_->shared.control, stats);
  stats.bad_samples = state_->ledger->total();
  stats.pinned = state_->device != nullptr && state_->pinning_tried;
  return stats;
}

}  // namespace shardmill
