// Options of tasks as JSON files (docs/cli.md).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "workflow/optimize.h"
#include "workflow/quantize.h"

namespace evoq {

// A field of a file of quantize's options, and where it lies in a job.
using ConfigValue = std::variant<std::string*, bool*, int*, double*, std::optional<double>*,
                                 std::vector<std::string>*>;
struct ConfigField {
  const char* key;  // "calib_limit": of --calib-limit
  ConfigValue (*value)(QuantizeJob& job);
  bool adds = false;  // a list, which adds to what is given beside the file
};
std::span<const ConfigField> QuantizeFields();

// Sets what the file says; of a job to optimize, also in the form of workflow/deployment.h, whose
// models are taken where the job names none. Errors: kNotFound, kIo; kInvalidInput, naming the
// field.
Status ReadConfig(const std::string& path, QuantizeJob& job);
Status ReadConfig(const std::string& path, OptimizeJob& job);
// The same of a file that is of that form.
Status ReadDeployment(const std::string& path, OptimizeJob& job);

// Gives `job` the fields of `file` that were not given by other means; lists that add, always.
void TakeFrom(QuantizeJob& file, QuantizeJob& job, const std::function<bool(const char*)>& given);

}  // namespace evoq
