#include "workflow/sensitivity.h"

#include <chrono>
#include <cmath>

#include "base/file.h"
#include "passes/widen.h"
#include "report/page.h"
#include "workflow/calibrate.h"
#include "workflow/models.h"
#include "workflow/outside.h"
#include "workflow/quantize_parts.h"
#include "workflow/unmatched.h"

namespace evoq {
namespace {

Status CheckJob(const SensitivityJob& job) {
  EVOQ_TRY(CheckQuantization(job.quantize));
  if (job.quantize.scheme == "auto")
    return Fail(ErrorCode::kUsage, "--scheme auto: expected one scheme, which each layer gets");
  if (job.quantize.method == kAutoMethod)
    return Fail(ErrorCode::kUsage, "--method auto: expected methods, which each layer gets");
  if (job.min_sqnr_db && !std::isfinite(*job.min_sqnr_db))
    return Fail(ErrorCode::kUsage, "--min-sqnr {}: expected dB", *job.min_sqnr_db);
  return job.report.empty() ? Status() : CheckOutputPath(job.report);
}

// Where the job names nothing to calibrate on, it is what outputs are compared on.
void CalibrateOnProbe(const ProbeOptions& options, const ProbeSamples& probe, QuantizeJob& job) {
  if (!job.samples.empty() || !job.calib.empty() || job.calib_random > 0) return;
  if (!options.data.empty()) {
    job.calib = options.data;
  } else {
    job.samples = probe.samples.inputs;
  }
}

}  // namespace

Result<SensitivityFound> FindSensitivity(const SensitivityJob& given, const Follow& follow) {
  const auto start = std::chrono::steady_clock::now();
  EVOQ_TRY(CheckJob(given));
  EVOQ_TRY(follow.At("loading", 0));
  QuantizeJob job = given.quantize;
  SensitivityInput input;
  input.scheme = FindScheme(job.scheme);
  EVOQ_ASSIGN(input.methods, ParseMethods(job.method));
  EVOQ_ASSIGN(input.graph, LoadGraph(job.model, job.fixed));
  EVOQ_ASSIGN(const ProbeSamples probe, LoadProbe(given.probe, input.graph, job.model));
  CalibrateOnProbe(given.probe, probe, job);
  EVOQ_ASSIGN(const Outside outside, ReadOutside(job, input.graph));
  CalibrationNotes notes;
  if (input.scheme->needs_calibration) {
    EVOQ_ASSIGN(input.ranges,
                FindRanges(job, input.graph, job.shapes, outside.ranges, follow, &notes));
  }
  if (!probe.samples.next.empty()) ForgetEmptyCaches(input.graph, notes.warnings);
  EVOQ_ASSIGN(input.data, MethodDataFor(job, input.methods, input.graph, job.shapes, follow));
  if (!input.scheme->widens || input.methods)
    EVOQ_TRY(WithContext(WidenConstants(input.graph), job.model));
  input.options = OptionsOf(job);
  input.prepare = PrepareWithEngine(job.threads);
  input.min_sqnr_db = given.min_sqnr_db;
  input.progress = follow.Stages();
  auto measured = MeasureSensitivity(input, probe.samples);
  if (given.probe.random > 0) measured = WithContext(std::move(measured), kProbeMadeUp);
  SensitivityFound found{.model = job.model, .scheme = job.scheme, .method = job.method};
  EVOQ_ASSIGN(found.result, WithContext(std::move(measured), job.model));
  found.samples = probe.samples.size();
  found.calibration_samples = notes.samples;
  notes.warnings.insert(notes.warnings.end(), found.result.warnings.begin(),
                        found.result.warnings.end());
  found.result.warnings = std::move(notes.warnings);
  std::ranges::copy(probe.warnings, std::back_inserter(found.result.warnings));
  std::ranges::move(UnmatchedWarnings(input.options, NodeNames(input.graph), {}),
                    std::back_inserter(found.result.warnings));
  if (!given.report.empty()) {
    EVOQ_TRY(follow.At("writing", 0));
    EVOQ_TRY(WriteFileAtomic(given.report, SensitivityPage(Tell(found).json)));
    found.report = given.report;
  }
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

}  // namespace evoq
