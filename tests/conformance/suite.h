// Runs every conformance case in every mode and holds the outcome to the list of cases that do not
// pass.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/conformance/modes.h"

namespace evoq {

// One line of the list, "PATTERN [!EXCEPTION] MODES: REASON": cases that match PATTERN and not
// EXCEPTION do not pass in the modes that match MODES. All three are patterns as in a shell
// (GlobMatch). '#' starts a comment line.
struct IgnoreLine {
  std::string pattern, exception, modes, reason;
  int number = 0;
};

// Errors: the file cannot be read; a line of another form.
Result<std::vector<IgnoreLine>> ReadIgnoreList(const std::string& path);

struct CaseResult {
  std::string name;              // "node/test_abs"
  std::vector<std::string> why;  // by mode: why it fails, "" where it passes
  std::vector<int> line;         // by mode: the line of the list that names it, 0 where none does
};

struct SuiteResult {
  std::vector<CaseResult> cases;  // sorted by name
  // A case that fails and is not listed, one that is listed and passes, a line that names no case.
  std::vector<std::string> problems;
  std::string ToString() const;  // counts by suite and mode, and the problems
};

// Runs the cases of `root`, several at a time. The environment variable EVOQ_CASE, a pattern,
// selects cases and prints their results.
SuiteResult RunSuite(const std::string& root, const std::vector<IgnoreLine>& list);

}  // namespace evoq
