// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "tools/command.h"

// One line per verb, in the order of the help; tools/VERB_command.cc defines make_VERB_command().
#define SHARDMILL_VERBS(VERB) \
  VERB(convert)               \
  VERB(index)                 \
  VERB(inspect)               \
  VERB(batches)               \
  VERB(verify)                \
  VERB(bench)                 \
  VERB(doctor)

namespace shardmill::tools {

#define SHARDMILL_DECLARE(verb) std::unique_ptr<Command> make_##verb##_command();
SHARDMILL_VERBS(SHARDMILL_DECLARE)
#undef SHARDMILL_DECLARE

namespace {

enum ExitCode { kFine = 0, kFailure = 1, kUsage = 2, kInterrupted = 130 };

using Commands = std::map<std::string, std::unique_ptr<Command>>;

void add_verb(CLI::App& app, Commands& commands, Console& console, const std::string& name,
              std::unique_ptr<Command> command) {
  CLI::App* verb = app.add_subcommand(name, command->summary());
  verb->footer("Example:\n  " + command->example());
  command->define(*verb);
  verb->add_flag("--json", console.json, "Print one JSON object on stdout, also on failure");
  verb->add_flag("--quiet", console.quiet, "Print no progress and no notes");
  verb->get_formatter()->column_width(34);
  commands[name] = std::move(command);
}

// The parser's sentence in the shape of our messages.
ErrorInfo usage_error(const CLI::ParseError& error, const CLI::App& app) {
  std::string command = "shardmill";
  for (const CLI::App* verb : app.get_subcommands()) command += " " + verb->get_name();
  std::string cause = error.what();
  while (!cause.empty() && (cause.back() == '.' || cause.back() == '\n')) cause.pop_back();
  if (cause.size() > 1 && cause[0] >= 'A' && cause[0] <= 'Z' && cause[1] >= 'a') cause[0] += 32;
  return {ErrorCode::kInvalidArgument, {}, {}, escape(cause), "see " + command + " --help"};
}

// A wrong argument concerns no place in a file; what is wrong inside data always has one.
ExitCode exit_code(const ErrorInfo& info) {
  return info.code == ErrorCode::kInvalidArgument && info.place.empty() ? kUsage : kFailure;
}

int run(int argc, char** argv, Console& console) {
  CLI::App app("Dataset shards for training: convert, look into, check, compare");
  app.name("shardmill");
  app.set_version_flag("--version", "shardmill " SHARDMILL_VERSION);
  app.require_subcommand(1);
  Commands commands;
#define SHARDMILL_ADD(verb) add_verb(app, commands, console, #verb, make_##verb##_command());
  SHARDMILL_VERBS(SHARDMILL_ADD)
#undef SHARDMILL_ADD
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    console.fail(usage_error(error, app), error_code_name(ErrorCode::kInvalidArgument));
    return kUsage;
  }
  const int code = commands.at(app.get_subcommands().front()->get_name())->run(console);
  console.flush();
  return code;
}

// The one place where failures become messages and exit codes.
int guarded_run(int argc, char** argv, Console& console) {
  try {
    return run(argc, argv, console);
  } catch (const Error& error) {
    console.fail(error.info(), error_code_name(error.code()));
    return exit_code(error.info());
  } catch (const Interrupted& stop) {
    console.fail({ErrorCode::kInternal, {}, {}, "interrupted", stop.remedy()}, "interrupted");
    return kInterrupted;
  } catch (const OutputClosed&) {
    return kFine;
  } catch (const std::bad_alloc&) {
    console.fail({ErrorCode::kResourceExhausted, {}, {}, "out of memory", {}},
                 error_code_name(ErrorCode::kResourceExhausted));
  } catch (const std::exception& error) {
    console.fail({ErrorCode::kInternal, {}, {}, error.what(), "please report this"},
                 error_code_name(ErrorCode::kInternal));
  }
  return kFailure;
}

}  // namespace
}  // namespace shardmill::tools

int main(int argc, char** argv) {
  using namespace shardmill::tools;
  install_signal_handlers();
  Console console;
  // Known before the parser fails, so that wrong usage is reported as JSON too.
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    console.json = console.json || std::strcmp(argv[i], "--json") == 0;
  }
  int code = 1;
  try {
    code = guarded_run(argc, argv, console);
    console.flush();
  } catch (const OutputClosed&) {  // met while a failure was printed
  } catch (const shardmill::Error& error) {
    std::fprintf(stderr, "shardmill: %s\n", error.what());
    code = 1;
  }
  std::fflush(stdout);
  return code;
}
