// What stands beside the reports of OpenVINO's benchmark_app.
#pragma once

#include <string>

#include "base/result.h"
#include "foreign/profiles/foreign_run.h"

namespace evoq {

// Latency and device of benchmark_report.json or .csv in the folder of `path`, where the run does
// not have them.
Status TakeBenchmarkSummary(const std::string& path, ForeignRun& run);

}  // namespace evoq
