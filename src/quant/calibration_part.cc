#include "quant/calibration_part.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "quant/calibrator.h"
#include "quant/observer.h"

namespace evoq {
namespace {

// The second pass asks for the values and the samples of the first.
Status CheckValues(const Calibrator& calibrator, const CalibrationPart& first_pass) {
  const auto watched = calibrator.Records();
  for (const auto& [name, record] : watched) {
    if (!first_pass.values.count(name))
      return InvalidInput("calibration: the first pass has no value {} of the model", name);
  }
  for (const auto& [name, record] : first_pass.values) {
    if (!watched.count(name))
      return InvalidInput("calibration: the first pass has a value {}, which the model lacks",
                          name);
  }
  return {};
}

Status FirstPass(const Graph& graph, const RunFn& run, const SamplesFn& samples, int64_t batch,
                 Calibrator& calibrator, CalibrationPart& part) {
  SampleCheck check(graph);
  EVOQ_TRY(samples([&](std::span<const Tensor> inputs) -> Status {
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
    check.Add(inputs, batch);
    return calibrator.ObserveRange(inputs, outputs);
  }));
  part.hashes = calibrator.hashes();
  part.inputs = check.inputs();
  return {};
}

Status SecondPass(const RunFn& run, const SamplesFn& samples, int64_t batch, Calibrator& calibrator,
                  const CalibrationPart& part) {
  const int64_t runs = calibrator.samples() / batch;
  int64_t next = part.part.first(runs) * batch;
  const int64_t end = part.part.last(runs) * batch;
  calibrator.StartHistograms();
  EVOQ_TRY(samples([&](std::span<const Tensor> inputs) -> Status {
    for (int64_t i = 0; i < batch; ++i) {
      if (next >= end || SampleHash(inputs, i, batch) != calibrator.hashes()[next + i])
        return InvalidInput("calibration: not the sample of the first pass");
    }
    EVOQ_ASSIGN(const std::vector<Tensor> outputs, run(inputs));
    calibrator.CountBins(inputs, outputs, next);
    next += batch;
    return {};
  }));
  if (next != end)
    return InvalidInput(
        "calibration: {} samples of part {} of {} are missing, which the first "
        "pass saw",
        end - next, part.part.index, part.part.count);
  return {};
}

}  // namespace

CalibrationOptions OptionsOf(const CalibrationPart& part) {
  CalibrationOptions options;
  options.observer = FindObserver(part.observer);
  options.percentile = part.percentile;
  options.bins = part.bins;
  options.batch = part.batch;
  options.intervals = true;
  return options;
}

Result<CalibrationPart> CalibratePart(const Graph& graph, const PrepareFn& prepare,
                                      const SamplesFn& samples, const CalibrationOptions& given,
                                      PartNumber of, const CalibrationPart* first_pass) {
  EVOQ_TRY(CheckOptions(given));
  EVOQ_CHECK(!given.stop_when_enough && given.batch >= 1);
  CalibrationPart part{.observer = ObserverOf(given).name,
                       .percentile = given.percentile,
                       .bins = given.bins,
                       .batch = given.batch,
                       .part = of};
  const CalibrationOptions options = OptionsOf(part);
  Calibrator calibrator(options);
  EVOQ_ASSIGN(const Graph instrumented, calibrator.Instrument(graph));
  EVOQ_ASSIGN(const RunFn run, prepare(instrumented));
  if (first_pass == nullptr) {
    EVOQ_TRY(FirstPass(graph, run, samples, options.batch, calibrator, part));
  } else {
    EVOQ_TRY(CheckValues(calibrator, *first_pass));
    part.pass = 2;
    part.hashes = first_pass->hashes;
    part.inputs = first_pass->inputs;
    calibrator.Resume(first_pass->values, part.hashes);
    EVOQ_TRY(SecondPass(run, samples, options.batch, calibrator, part));
  }
  part.values = calibrator.Records();
  return part;
}

// ---- together

namespace {

// What `b` should have in common with `a` and has not; "" where it has.
std::string DifferenceOf(const CalibrationPart& a, const CalibrationPart& b) {
  const auto told = [](const char* what, const auto& found, const auto& expected) {
    return fmt::format("{} {}, expected {}", what, found, expected);
  };
  if (a.model != b.model) return told("it is of another model:", b.model, a.model);
  if (a.observer != b.observer) return told("its observer is", b.observer, a.observer);
  if (a.percentile != b.percentile) return told("its percentile is", b.percentile, a.percentile);
  if (a.bins != b.bins) return told("its bins are", b.bins, a.bins);
  if (a.batch != b.batch) return told("its runs hold so many samples:", b.batch, a.batch);
  if (a.pass != b.pass) return told("it is of pass", b.pass, a.pass);
  if (a.part.count != b.part.count)
    return told("the number of parts is", b.part.count, a.part.count);
  if (a.pass == 2 && a.hashes != b.hashes) return "it follows on another first pass";
  if (!std::ranges::equal(std::views::keys(a.values), std::views::keys(b.values)))
    return "it observed other values";
  if (!std::ranges::equal(a.inputs, b.inputs, {}, &SeenInput::name, &SeenInput::name))
    return "it has other inputs";
  return "";
}

}  // namespace

Result<CalibrationPart> MergeParts(std::span<const CalibrationPart> parts,
                                   std::span<const std::string> names) {
  EVOQ_CHECK(parts.size() == names.size());
  if (parts.empty()) return InvalidInput("no part of a calibration was given");
  std::vector<size_t> order(static_cast<size_t>(parts[0].part.count), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (const std::string other = DifferenceOf(parts[0], parts[i]); !other.empty())
      return InvalidInput("{} does not go with {}: {}", names[i], names[0], other);
    size_t& place = order[static_cast<size_t>(parts[i].part.index) - 1];
    if (place != parts.size())
      return InvalidInput("{} and {} are both part {} of {}", names[place], names[i],
                          parts[i].part.index, parts[i].part.count);
    place = i;
  }
  for (size_t index = 0; index < order.size(); ++index) {
    if (order[index] == parts.size())
      return InvalidInput("part {} of {} is missing beside {}", index + 1, order.size(), names[0]);
  }
  CalibrationPart whole = parts[order[0]];
  whole.part = {};
  for (size_t index = 1; index < order.size(); ++index) {
    const CalibrationPart& next = parts[order[index]];
    for (auto& [name, record] : whole.values) {
      if (whole.pass == 2)
        record.AddCounts(next.values.at(name));
      else
        record.Append(next.values.at(name));
    }
    for (const std::string& isa : next.isas) {
      if (std::ranges::find(whole.isas, isa) == whole.isas.end()) whole.isas.push_back(isa);
    }
    if (whole.pass == 2) continue;
    whole.hashes.insert(whole.hashes.end(), next.hashes.begin(), next.hashes.end());
    for (size_t i = 0; i < whole.inputs.size(); ++i) whole.inputs[i].Append(next.inputs[i]);
  }
  return whole;
}

bool NeedsSecondPass(const CalibrationPart& whole) {
  return FindObserver(whole.observer)->histogram != HistogramKind::kNone;
}

Result<Ranges> RangesOf(const CalibrationPart& whole, const Graph& graph, CalibrationNotes* notes) {
  if (!whole.whole())
    return Fail(ErrorCode::kUsage, "part {} of {} of a calibration has no ranges; merge all parts",
                whole.part.index, whole.part.count);
  if (NeedsSecondPass(whole) && whole.pass < 2)
    return Fail(ErrorCode::kUsage,
                "the observer {} needs a second pass over the samples, behind this first one",
                whole.observer);
  if (whole.hashes.empty()) return InvalidInput("calibration: no sample was given");
  const CalibrationOptions options = OptionsOf(whole);
  Calibrator calibrator(options);
  calibrator.Resume(whole.values, whole.hashes);
  Ranges ranges = calibrator.Choose();
  if (notes == nullptr) return ranges;
  notes->samples = static_cast<int>(whole.hashes.size());
  notes->warnings = SampleCheck(whole.inputs, whole.hashes).Warnings();
  for (std::string& warning : LoneSampleWarnings(calibrator.LoneSamples(), ranges, notes->samples))
    notes->warnings.push_back(std::move(warning));
  for (std::string& warning : RangeWarnings(graph, ranges))
    notes->warnings.push_back(std::move(warning));
  if (whole.isas.size() > 1)
    notes->warnings.push_back(
        fmt::format("calibration: its parts ran with different instruction sets ({}), whose sums "
                    "differ in their last bits: the ranges are those of no single machine; "
                    "EVOQ_TARGET={} for all makes them one",
                    fmt::join(whole.isas, ", "), whole.isas[0]));
  return ranges;
}

}  // namespace evoq
