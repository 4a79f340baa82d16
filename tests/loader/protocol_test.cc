// SPDX-License-Identifier: Apache-2.0
// The claim protocol alone, between processes that die: rows that take a while to write, random
// SIGKILLs, and a consumer that checks every byte and poisons it.
#include <shardmill/loader/random.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>

#include "loader/internal/claims.h"
#include "loader/system/futex.h"
#include "loader/system/memory_file.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::internal;

namespace {

constexpr std::size_t kRows = 70;  // more than one word of done bits
constexpr std::size_t kRowWords = 128;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kRowsOfEach = kRows * kRowWords;
constexpr useconds_t kStallUs = 3000;  // how long a row stalls in the control with early recovery
constexpr std::uint64_t kPoison = 0xDEADBEEFCAFEF00D;

struct Plan {
  int workers = 4;
  std::uint32_t kill_one_in = 0;    // at every step of the protocol
  std::uint32_t kill_at_point = 0;  // at one step
  int kills = 0;                    // from outside, at random moments
  bool ragged = true;
  bool recover_early = false;  // negative control
  bool no_wake = false;        // negative control
  bool delays = false;         // yield and sleep at random steps
  std::size_t slots = kSlots;  // batches in flight
  std::uint64_t batches = 300;
};

struct Outcome {
  std::uint64_t wrong_rows = 0;
  std::uint64_t late_writes = 0;
  std::uint64_t deaths = 0;
  std::uint64_t redone = 0;
  bool hung = false;
};

std::uint64_t word(std::uint64_t sample, std::size_t i) { return mix_bits(sample * 1000 + i); }

class Harness {
 public:
  explicit Harness(const Plan& plan)
      : plan_(plan),
        control_file_("test-control", ControlView::bytes(kRows)),
        data_file_("test-data", kSlots * (kRowsOfEach + kRows) * 8),
        control_(control_file_.data(), kRows) {
    control_->layout.sealed = plan.ragged ? 1 : 0;
    control_->slots.store(kSlots);
    control_->kill_one_in = plan.kill_one_in;
    control_->kill_at_point = plan.kill_at_point;
    control_->delays = plan.kill_one_in != 0 ? 1 : 0;
    for (std::size_t i = 0; i < data_file_.size() / 8; ++i) data()[i] = kPoison;
  }

  Outcome run() {
    const pid_t nursery = fork();
    if (nursery == 0) run_nursery();
    consume();
    control_->stop.store(1);
    futex_bump(control_->work);
    kill(nursery, SIGKILL);
    waitpid(nursery, nullptr, 0);
    outcome_.deaths = control_->deaths.load();
    outcome_.redone = control_->redone.load();
    return outcome_;
  }

 private:
  std::uint64_t* data() { return reinterpret_cast<std::uint64_t*>(data_file_.data()); }
  std::uint64_t* row(std::size_t slot, std::size_t row) {
    return data() + slot * (kRowsOfEach + kRows) + row * kRowWords;
  }
  std::uint64_t* sealed(std::size_t slot) {  // one word a row, written by the seal
    return data() + slot * (kRowsOfEach + kRows) + kRowsOfEach;
  }

  [[noreturn]] void run_worker(std::uint32_t serial) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Claimer claimer(control_, serial);
    claimer.pack = [this](std::uint32_t slot) {
      const SlotControl s = control_.slot(slot);
      for (std::size_t i = 0; i < s.header->rows; ++i) {
        sealed(slot)[i] = mix_bits(s.sample(i));
        SHARDMILL_POINT(*control_, 10);
      }
    };
    while (control_->stop.load() == 0) {
      const auto claim = claimer.claim();
      if (!claim) {
        claimer.wait(1000);
        continue;
      }
      const SlotControl s = control_.slot(claim->slot);
      const std::uint64_t sample = s.sample(claim->row);
      for (std::size_t i = 0; i < kRowWords; ++i) {
        row(claim->slot, claim->row)[i] = word(sample, i);
        if (i % 32 == 0) SHARDMILL_POINT(*control_, 11);
        if (plan_.recover_early && i == 64 && sample % 100 == 50 && s.tries[claim->row] == 0) {
          usleep(kStallUs);
        }
      }
      s.status[claim->row].store(RowStatus::kGood);
      claimer.finish(*claim);
    }
    _exit(0);
  }

  [[noreturn]] void run_nursery() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::map<pid_t, std::uint32_t> serials;
    std::uint32_t next = kFirstSerial;
    const auto spawn = [&] {
      const std::uint32_t serial = next++;
      const pid_t pid = fork();
      if (pid == 0) run_worker(serial);
      serials[pid] = serial;
    };
    const auto recover_worker = [&](std::uint32_t serial) {
      const auto describe = [](const Claim&, std::uint64_t) { return ErrorInfo{}; };
      recover(control_, serial, false, describe);
      if (!plan_.no_wake) wake_all(control_);
    };
    for (int i = 0; i < plan_.workers; ++i) spawn();
    Random random(5, 0, 0);
    for (std::uint64_t turn = 0;; ++turn) {
      usleep(static_cast<useconds_t>(100 + random.below(300)));
      if (plan_.recover_early && turn % 2 == 0) {
        // As if a missed heartbeat proved a death: the worker lives, and writes on.
        for (const auto& [pid, serial] : serials) recover_worker(serial);
      }
      if (plan_.kills != 0 && turn % static_cast<std::uint64_t>(plan_.kills) == 0) {
        auto victim = serials.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(random.below(serials.size())));
        kill(victim->first, SIGKILL);
      }
      for (pid_t pid; (pid = waitpid(-1, nullptr, WNOHANG)) > 0;) {
        recover_worker(serials[pid]);
        control_->deaths.fetch_add(1);
        serials.erase(pid);
        spawn();
      }
    }
  }

  void publish_next(std::uint32_t slot) {
    std::vector<PlanEntry> plan;
    const std::uint64_t batch = control_->published.load();
    const std::size_t rows = batch % 7 == 6 ? kRows - 3 : kRows;
    for (std::size_t i = 0; i < rows; ++i) plan.push_back({0, 0, i, {batch * 1000 + i}, 0});
    publish(control_, slot, plan);
  }

  void consume() {
    std::deque<std::uint32_t> in_flight;
    for (std::uint32_t slot = 0; slot < plan_.slots; ++slot) {
      publish_next(slot);
      in_flight.push_back(slot);
    }
    for (std::uint64_t batch = 0; batch < plan_.batches; ++batch) {
      const std::uint32_t slot = in_flight.front();
      in_flight.pop_front();
      if (!wait(slot)) {
        outcome_.hung = true;
        return;
      }
      control_->oldest.fetch_add(1);
      check(slot, batch);
      if (plan_.recover_early) usleep(2 * kStallUs);  // time for whoever still writes
      for (std::size_t i = 0; i < kRowsOfEach; ++i) {
        if (row(slot, 0)[i] != kPoison) {
          ++outcome_.late_writes;
          row(slot, 0)[i] = kPoison;
        }
      }
      publish_next(slot);
      in_flight.push_back(slot);
    }
  }

  bool wait(std::uint32_t slot) {
    const auto begin = std::chrono::steady_clock::now();
    const auto limit = std::chrono::seconds(plan_.no_wake ? 3 : 60);
    while (true) {
      const std::uint32_t seen = control_->ready.load();
      if (complete(control_, slot)) return true;
      // Without a time-out of its own a missing wake would hang the consumer: the control shows it.
      futex_wait(control_->ready, seen, plan_.no_wake ? 3000 : 100);
      if (plan_.no_wake && control_->ready.load() == seen) return false;
      if (std::chrono::steady_clock::now() - begin > limit) return false;
    }
  }

  void check(std::uint32_t slot, std::uint64_t batch) {
    const SlotControl s = control_.slot(slot);
    for (std::size_t i = 0; i < s.header->rows; ++i) {
      const std::uint64_t sample = batch * 1000 + i;
      if (s.status[i].load() == RowStatus::kBad && s.failed[i] == 1) continue;  // killed twice
      bool right = s.sample(i) == sample && s.status[i].load() == RowStatus::kGood;
      for (std::size_t w = 0; w < kRowWords; ++w)
        right = right && row(slot, i)[w] == word(sample, w);
      if (plan_.ragged) right = right && sealed(slot)[i] == mix_bits(sample);
      if (!right) ++outcome_.wrong_rows;
    }
    for (std::size_t i = 0; i < kRowsOfEach; ++i) row(slot, 0)[i] = kPoison;
  }

  const Plan plan_;
  MemoryFile control_file_;
  MemoryFile data_file_;
  ControlView control_;
  Outcome outcome_;
};

void check_right(const Outcome& outcome) {
  CHECK_FALSE(outcome.hung);
  CHECK(outcome.wrong_rows == 0);
  CHECK(outcome.late_writes == 0);
}

}  // namespace

TEST_CASE("Without deaths every row is done once", "[protocol]") {
  for (const bool ragged : {false, true}) {
    const Outcome outcome = Harness({.ragged = ragged}).run();
    check_right(outcome);
    CHECK(outcome.redone == 0);
  }
}

TEST_CASE("Workers that die at random steps lose nothing", "[protocol]") {
  for (const bool ragged : {false, true}) {
    const Outcome outcome = Harness({.kill_one_in = 2000, .ragged = ragged}).run();
    check_right(outcome);
    CHECK(outcome.deaths > 10);
    CHECK(outcome.redone > 0);
  }
}

TEST_CASE("Workers that die at each single step lose nothing", "[protocol]") {
  for (std::uint32_t point = 1; point <= 11; ++point) {
    CAPTURE(point);
    const bool seal = point >= 6 && point <= 10;
    const Outcome outcome = Harness({.kill_at_point = point, .ragged = seal, .batches = 100}).run();
    check_right(outcome);
    CHECK(outcome.deaths > 0);
  }
}

TEST_CASE("Workers killed from outside at random moments lose nothing", "[protocol]") {
  const Outcome outcome = Harness({.workers = 8, .kills = 3, .batches = 2000}).run();
  check_right(outcome);
  CHECK(outcome.deaths > 5);
}

TEST_CASE("Negative control: recovery before reaping corrupts rows", "[protocol]") {
  const Outcome outcome = Harness({.recover_early = true, .slots = 1, .batches = 100}).run();
  INFO(outcome.redone << " redone, hung " << outcome.hung);
  CHECK(outcome.late_writes + outcome.wrong_rows > 0);
}

TEST_CASE("Negative control: without the nursery's wake the consumer sleeps on", "[protocol]") {
  // Dying between the last done bit and the wake (step 4) owes the consumer a wake.
  const Outcome outcome = Harness({.workers = 1,
                                   .kill_at_point = 4,
                                   .ragged = false,
                                   .no_wake = true,
                                   .slots = 1,
                                   .batches = 2000})
                              .run();
  CHECK(outcome.hung);
}
