#include "base/check.h"
#include "quant/calibrator.h"
#include "quant/quant.h"
#include "quant/suspect.h"

namespace evoq {

Result<Ranges> Calibrate(const Graph& graph, const PrepareFn& prepare, const SamplesFn& samples,
                         const CalibrationOptions& options, CalibrationNotes* notes) {
  EVOQ_TRY(CheckOptions(options));
  EVOQ_CHECK(options.batch >= 1);
  Calibrator calibrator(options);
  calibrator.LetInfinitiesPass();
  EVOQ_ASSIGN(const Graph instrumented, calibrator.Instrument(graph));
  EVOQ_ASSIGN(const RunFn run, prepare(instrumented));
  SampleCheck check(graph);
  // Samples give no way to end early but an error: this one is not passed on.
  const auto until = [&](const std::function<Result<bool>(std::span<const Tensor>)>& goes_on) {
    bool ended = false;
    Status status = samples([&](std::span<const Tensor> inputs) -> Status {
      EVOQ_ASSIGN(const bool more, goes_on(inputs));
      ended = !more;
      return more ? Status() : Fail(ErrorCode::kInternal, "calibration has enough samples");
    });
    return ended ? Status() : std::move(status);
  };
  EVOQ_TRY(until([&](std::span<const Tensor> inputs) -> Result<bool> {
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
    check.Add(inputs, options.batch);
    EVOQ_TRY(calibrator.ObserveRange(inputs, outputs));
    return !calibrator.IsEnough();
  }));
  const int64_t count = calibrator.samples();
  if (count == 0) return InvalidInput("calibration: no sample was given");
  if (calibrator.NeedsHistograms()) {
    calibrator.StartHistograms();
    int64_t first = 0;
    EVOQ_TRY(until([&](std::span<const Tensor> inputs) -> Result<bool> {
      if (first >= count) return InvalidInput("calibration: samples differ between two passes");
      EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
      calibrator.CountBins(inputs, outputs, first);
      first += options.batch;
      return !calibrator.enough() || first < count;
    }));
  }
  Ranges ranges = calibrator.Choose();
  if (notes != nullptr) {
    notes->samples = static_cast<int>(count);
    if (options.stop_when_enough)
      notes->enough = calibrator.known().Told(count, calibrator.enough());
    notes->warnings = check.Warnings();
    for (std::string& warning : LoneSampleWarnings(calibrator.LoneSamples(), ranges, count))
      notes->warnings.push_back(std::move(warning));
    for (std::string& warning : RangeWarnings(graph, ranges))
      notes->warnings.push_back(std::move(warning));
    for (std::string& warning : InfinityWarnings(graph, calibrator.InfiniteValues()))
      notes->warnings.push_back(std::move(warning));
  }
  return ranges;
}

}  // namespace evoq
