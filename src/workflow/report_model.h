// A measured model as the HTML report takes it.
#pragma once

#include <string>

#include "report/html.h"

namespace evoq {

// `eval`: a file that `evoq eval --json` wrote, "" without one. The executor must outlive the
// result. Errors: kNotFound, kIo; kInvalidInput when the file holds no top1 and samples.
Result<ReportModel> ForReport(const std::string& path, const std::string& eval,
                              const Runnable& executor, const StepProfile& profile);

}  // namespace evoq
