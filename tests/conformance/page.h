// docs/operators.md: what evoq does with each operator, and how its conformance cases end.
#pragma once

#include <string>

#include "base/result.h"
#include "tests/conformance/suite.h"

namespace evoq {

// The page, from the lists of operators, kernels and import rules and from the outcome of the suite
// on `root`. Errors: a case's model cannot be read.
Result<std::string> OperatorsPage(const std::string& root, const SuiteResult& suite);

}  // namespace evoq
