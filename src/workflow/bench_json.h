// What `bench` reports of one model, shared with `compare`.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/isa.h"
#include "profile/measure.h"

namespace evoq {

// {"runs", "p50_ms", "mean_ms", "min_ms", "p90_ms", "p95_ms", "p99_ms"}.
nlohmann::json TimesJson(const RunTimes& times);

// Samples in one run: the first dimension of the first input.
int64_t BatchOf(const Runnable& executor);

// Samples that streams, each with runs of `batch` samples, do in a second beside each other. What
// several of them wait for a processor between their runs counts.
double PerSecond(std::span<const RunTimes> streams, int64_t batch);

// The fields of docs/cli.md's `bench`: times are those of `all` runs, which are the runs of all
// streams; per_second adds up what the streams, each an executor like this one, do beside each
// other.
nlohmann::json BenchJson(const std::string& model, const Runnable& executor, Isa isa,
                         std::span<const RunTimes> streams, const RunTimes& all, double load_ms);

}  // namespace evoq
