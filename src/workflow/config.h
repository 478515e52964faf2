// Options of tasks as JSON files (docs/cli.md).
#pragma once

#include "workflow/optimize.h"
#include "workflow/quantize.h"

namespace evoq {

// Sets what the file says; patterns of `exclude` and `disable` are added. Errors: kNotFound, kIo;
// kInvalidInput, naming the field.
Status ReadConfig(const std::string& path, QuantizeJob& job);
Status ReadConfig(const std::string& path, OptimizeJob& job);

}  // namespace evoq
