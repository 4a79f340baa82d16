// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace {

std::size_t cases_run = 0;

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

struct CaseCounter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseEnded(const Catch::TestCaseStats&) override { ++cases_run; }
};
CATCH_REGISTER_LISTENER(CaseCounter)

}  // namespace

// Exits 77 (CTest: skipped) if every test case that ran called skip().
int main(int argc, char** argv) {
  const int result = Catch::Session().run(argc, argv);
  const auto skipped = static_cast<std::size_t>(shardmill::test::skip_count());
  return result == 0 && skipped > 0 && skipped == cases_run ? 77 : result;
}
