#include "workflow/throughput.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "workflow/bench_json.h"
#include "workflow/streams.h"

namespace evoq {
namespace {

constexpr int kMostBatch = 64;

// What says of a batch that the model does not run at it, or the machine cannot hold it.
bool IsOfTheBatch(ErrorCode code) {
  return code == ErrorCode::kInvalidInput || code == ErrorCode::kUnsupported ||
         code == ErrorCode::kTooLarge;
}

class Trying {
 public:
  explicit Trying(const ThroughputJob& job)
      : job_(job), cores_(job.cores > 0 ? job.cores : PhysicalCores()) {}

  Result<std::vector<ThroughputTrial>> Run() {
    if (job_.streams > 0 && cores_ % job_.streams != 0)
      return Fail(ErrorCode::kUsage, "{} streams: expected a divisor of {} threads", job_.streams,
                  cores_);
    for (int streams = 1; streams <= cores_; ++streams) {
      if (cores_ % streams != 0 || (job_.streams > 0 && streams != job_.streams)) continue;
      EVOQ_TRY(Batches(streams));
    }
    return std::move(trials_);
  }

 private:
  // All batches with so many streams.
  Status Batches(int streams) {
    const int threads = cores_ / streams;
    EVOQ_ASSIGN(ModelToMeasure model, LoadToMeasure(job_.model, threads, job_.what));
    if (model.in_partitions && streams > 1 && job_.streams == 0) return {};  // one at a time
    EVOQ_TRY(CheckStreams(model, job_.model, streams));
    const bool fixed = job_.what.batch > 0 || !model.contents.empty() ||
                       !HasFreeBatch(model.engine->model().graph);
    if (fixed) return Measure(model, {job_.what.batch, streams, threads});
    std::vector<double> per_second;
    for (int batch = 1; batch <= kMostBatch && TriesLarger(per_second); batch *= 2) {
      const Status measured = MeasureBatch(model, {batch, streams, threads});
      if (!measured && batch > 1 && IsOfTheBatch(measured.error().code())) return {};
      EVOQ_TRY(measured);
      per_second.push_back(trials_.back().per_second);
    }
    return {};
  }

  Status MeasureBatch(ModelToMeasure& model, const ThroughputSetting& setting) {
    WhatToMeasure what = job_.what;
    what.batch = setting.batch;
    EVOQ_TRY(Settle(model, what));
    return Measure(model, setting);
  }

  Status Measure(const ModelToMeasure& model, const ThroughputSetting& setting) {
    if (job_.progress) EVOQ_TRY(job_.progress(std::min(0.95, 0.07 * trials_.size())));
    EVOQ_ASSIGN(FirstRun ready, RunFirst(model));
    MeasureOptions options;
    options.warmup_ms = 100 * job_.each_s;
    options.duration_s = job_.each_s;
    options.min_runs = 3;
    EVOQ_ASSIGN(const StreamTimes times,
                MeasureStreams(*ready.runnable, ready.buffers, setting.streams, options));
    ThroughputTrial trial = {setting, BatchOf(*ready.runnable)};
    trial.per_second = PerSecond(times.streams, trial.batch);
    trial.p50_ms = times.all().median();
    trials_.push_back(trial);
    return {};
  }

  const ThroughputJob& job_;
  const int cores_;
  std::vector<ThroughputTrial> trials_;
};

}  // namespace

bool TriesLarger(std::span<const double> per_second) {
  double most = 0;
  int worse = 0;
  for (double figure : per_second) {
    worse = figure > most ? 0 : worse + 1;
    most = std::max(most, figure);
  }
  return worse < 2;
}

Result<std::vector<ThroughputTrial>> TryThroughput(const ThroughputJob& job) {
  return Trying(job).Run();
}

const ThroughputTrial& Best(const std::vector<ThroughputTrial>& trials) {
  return *std::max_element(trials.begin(), trials.end(),
                           [](const ThroughputTrial& a, const ThroughputTrial& b) {
                             return a.per_second < b.per_second;
                           });
}

}  // namespace evoq
