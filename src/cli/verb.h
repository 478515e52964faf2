// The verbs of the command line: one row (VerbDef) in its own file, named by one line in
// cli/verbs.inc.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "tensor/tensor.h"
#include "workflow/follow.h"

namespace evoq {

// Options of every verb.
struct CommonOptions {
  std::string json_path;                         // --json FILE
  int threads = 0;                               // --threads N; 0: all physical cores
  std::span<const std::vector<Tensor>> samples;  // for calibration, of a caller in this process,
                                                 // instead of files: by sample, by input
  Follow follow;                                 // of the command line: bars on stderr
};

// Runs a verb whose options are parsed. Prints its result on stdout; what it returns goes to
// --json.
using VerbRun = std::function<Result<nlohmann::json>()>;

struct VerbDef {
  const char* name;
  const char* doc;      // one sentence
  const char* example;  // a command line that works
  // Declares the verb's options and returns what runs with them.
  VerbRun (*declare)(const VerbOptions& options, const CommonOptions& common);
};

std::span<const VerbDef* const> AllVerbs();

// Writes what --json FILE asks for; nothing for "". RunCommandLine does it for a verb that
// succeeds; one whose stated condition fails may do it before it returns the error.
Status WriteJson(const std::string& path, const nlohmann::json& result);

// The whole program: parses, runs, prints errors on stderr, writes --json. Returns the exit code of
// docs/cli.md: 0 success, 1 a stated condition failed, 2 bad usage, 3 bad input, 4 internal error.
int RunCommandLine(int argc, const char* const* argv);

struct VerbOutput {
  nlohmann::json json;           // what --json writes
  std::string out;               // what stdout would show
  std::vector<std::string> log;  // lines of stderr: warnings, progress by pass
};

// One verb for a caller in this process, `arguments` as on the command line. Prints nothing.
// Errors: the verb's; kUsage for its options.
Result<VerbOutput> RunVerb(const std::string& name, std::vector<std::string> arguments,
                           CommonOptions common = {});

}  // namespace evoq
