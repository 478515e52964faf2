#include "workflow/calibration.h"

#include <chrono>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/isa.h"
#include "base/json_file.h"
#include "base/printable.h"
#include "llm/phase.h"
#include "quant/observer.h"
#include "workflow/calibrate.h"
#include "workflow/models.h"
#include "workflow/quantize_parts.h"

namespace evoq {
namespace {

// Tells graphs apart by structure, names and constants.
std::string DigestOf(const Graph& graph) {
  const auto crc_of = [](const void* data, size_t bytes) {
    return Crc32c({static_cast<const std::byte*>(data), bytes});
  };
  std::string text = Print(graph);
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.is_constant() && value.type.dtype != DType::kString)
      text += fmt::format("{:08x}", crc_of(value.constant.raw(), value.constant.bytes()));
  }
  return fmt::format("{:08x}-{}", crc_of(text.data(), text.size()), text.size());
}

Status CheckJob(const CalibrateJob& job) {
  EVOQ_TRY(CheckQuantization(job.quantize));
  EVOQ_TRY(CheckOutput(job.output, InputFilesOf(job.quantize)));
  const bool in_parts = !job.part.empty() || !job.after.empty();
  if (!job.merge.empty() && in_parts)
    return Fail(ErrorCode::kUsage, "--merge puts parts together: it excludes --part and --after");
  if (in_parts && job.quantize.calib_samples == "auto")
    return Fail(ErrorCode::kUsage,
                "--samples auto asks all samples so far whether they are enough: it excludes "
                "--part and --after");
  return {};
}

Result<CalibrationPart> ReadPart(const std::string& path, const std::string& model) {
  EVOQ_ASSIGN(const nlohmann::json json, ReadJsonFile(path));
  EVOQ_ASSIGN(CalibrationPart part, WithContext(ParseCalibrationPart(json), path));
  if (part.model != model)
    return InvalidInput("{}: it is of another model: {}, expected {}", path, part.model, model);
  return part;
}

Status WritePart(const CalibrationPart& part, const std::string& path) {
  return WriteFileAtomic(
      path, ToJson(part).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// The ranges of all samples.
Status WriteRanges(const Ranges& ranges, const CalibrationOptions& options,
                   const CalibrationNotes& notes, Calibrated& done) {
  done.complete = true;
  done.samples = notes.samples;
  done.ranges = static_cast<int64_t>(ranges.size());
  done.samples_enough = notes.enough;
  done.warnings = notes.warnings;
  std::ranges::copy(notes.data_warnings, std::back_inserter(done.warnings));
  return SaveRanges(ranges, options, done.output, notes.samples);
}

// The whole calibration, here.
Status Whole(const CalibrateJob& job, const Graph& graph, const Follow& follow, Calibrated& done) {
  QuantizeJob quantize = job.quantize;
  quantize.ranges_out = job.output;  // it asks for intervals
  CalibrationNotes notes;
  EVOQ_ASSIGN(const Ranges ranges,
              FindRanges(quantize, graph, quantize.shapes, {}, follow, &notes));
  EVOQ_TRY(follow.At("writing", 0));
  return WriteRanges(ranges, CalibrationOptionsOf(quantize), notes, done);
}

Status OnePart(const CalibrateJob& job, const Graph& graph, const std::string& model,
               const Follow& follow, Calibrated& done) {
  const QuantizeJob& quantize = job.quantize;
  std::optional<CalibrationPart> first_pass;
  if (!job.after.empty()) {
    EVOQ_ASSIGN(first_pass, ReadPart(job.after, model));
    if (!first_pass->whole() || first_pass->pass != 1)
      return Fail(ErrorCode::kUsage,
                  "--after {}: it is part {} of {} of pass {}, expected a first "
                  "pass whose parts were merged",
                  job.after, first_pass->part.index, first_pass->part.count, first_pass->pass);
  }
  EVOQ_ASSIGN(const JobSamples samples,
              SamplesFor(quantize, graph, quantize.shapes, follow, "calibrate", done.part));
  done.warnings = samples.warnings;
  CalibrationOptions options = CalibrationOptionsOf(quantize);
  EVOQ_ASSIGN(options.batch, SamplesOfRun(quantize, graph, samples));
  if (first_pass) {
    const char* const observer = ObserverOf(options).name;
    if (observer != first_pass->observer || options.percentile != first_pass->percentile ||
        options.batch != first_pass->batch)
      return Fail(ErrorCode::kUsage,
                  "--after {}: its observer is {} (percentile {}) on runs of {} samples, expected "
                  "{} (percentile {}) and {}",
                  job.after, first_pass->observer, first_pass->percentile, first_pass->batch,
                  observer, options.percentile, options.batch);
    options.bins = first_pass->bins;
  }
  EVOQ_ASSIGN(CalibrationPart part,
              CalibratePart(graph, PrepareWithEngine(quantize.threads), samples.each, options,
                            done.part, first_pass ? &*first_pass : nullptr));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  part.isas = {IsaName(isa)};
  part.model = model;
  done.pass = part.pass;
  const auto runs = static_cast<int64_t>(part.hashes.size()) / part.batch;
  done.samples = part.pass == 1 ? static_cast<int64_t>(part.hashes.size())
                                : (part.part.last(runs) - part.part.first(runs)) * part.batch;
  EVOQ_TRY(follow.At("writing", 0));
  return WritePart(part, job.output);
}

Status Merged(const CalibrateJob& job, const Graph& graph, const std::string& model,
              Calibrated& done) {
  std::vector<CalibrationPart> parts;
  for (const std::string& path : job.merge) {
    EVOQ_ASSIGN(CalibrationPart part, ReadPart(path, model));
    parts.push_back(std::move(part));
  }
  EVOQ_ASSIGN(const CalibrationPart whole, MergeParts(parts, job.merge));
  done.pass = whole.pass;
  done.samples = static_cast<int64_t>(whole.hashes.size());
  done.needs_second_pass = whole.pass == 1 && NeedsSecondPass(whole);
  if (done.needs_second_pass) return WritePart(whole, job.output);
  CalibrationNotes notes;
  EVOQ_ASSIGN(const Ranges ranges, RangesOf(whole, graph, &notes));
  return WriteRanges(ranges, OptionsOf(whole), notes, done);
}

}  // namespace

Result<Calibrated> CalibrateModel(const CalibrateJob& job, const Follow& follow) {
  const auto start = std::chrono::steady_clock::now();
  EVOQ_TRY(CheckJob(job));
  EVOQ_TRY(follow.At("loading", 0));
  const QuantizeJob& quantize = job.quantize;
  Calibrated done{.model = quantize.model, .output = job.output};
  EVOQ_ASSIGN(done.part, ParsePartNumber(job.part));
  EVOQ_ASSIGN(const Graph graph, LoadGraph(quantize.model, quantize.fixed, quantize.passes));
  if (!job.merge.empty()) {
    EVOQ_TRY(WithContext(Merged(job, graph, DigestOf(graph), done), quantize.model));
  } else if (!job.part.empty() || !job.after.empty()) {
    EVOQ_TRY(WithContext(OnePart(job, graph, DigestOf(graph), follow, done), quantize.model));
  } else {
    EVOQ_TRY(Whole(job, graph, follow, done));
  }
  ForgetEmptyCaches(graph, done.warnings);
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return done;
}

Told Tell(const Calibrated& done) {
  Told told;
  told.json = {{"model", done.model},
               {"output", done.output},
               {"complete", done.complete},
               {"part", done.part.index},
               {"parts", done.part.count},
               {"pass", done.pass},
               {"needs_second_pass", done.needs_second_pass},
               {"samples_used", done.samples},
               {"ranges", done.ranges},
               {"warnings", done.warnings},
               {"seconds", done.seconds}};
  if (done.complete) {
    told.text = FormatPrintable("{}: {} ranges of {} samples, {:.1f} s\n", done.output, done.ranges,
                                done.samples, done.seconds);
  } else if (done.needs_second_pass) {
    told.text = FormatPrintable(
        "{}: the first pass over {} samples; the observer takes a second one: --part K/N --after "
        "{}\n",
        done.output, done.samples, done.output);
  } else {
    told.text =
        FormatPrintable("{}: part {} of {} of pass {}, {} samples, {:.1f} s\n", done.output,
                        done.part.index, done.part.count, done.pass, done.samples, done.seconds);
  }
  if (!done.samples_enough.empty()) {
    told.json["samples_enough"] = done.samples_enough;
    told.text += FormatPrintable("  {}\n", done.samples_enough);
  }
  for (const std::string& warning : done.warnings) told.log.push_back("warning: " + warning);
  return told;
}

}  // namespace evoq
