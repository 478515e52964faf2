// A calibration in parts, each of some of the samples, wherever each is made: in other processes,
// on other machines. Put together they give the ranges of one calibration over all samples, bit for
// bit (docs/calibration.md, "In parts").
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/part_number.h"
#include "quant/quant.h"
#include "quant/statistics.h"
#include "quant/suspect.h"

namespace evoq {

struct CalibrationPart {
  // What parts of one calibration have in common.
  std::string model;     // tells graphs apart: of whoever makes the parts
  std::string observer;  // a row's name
  double percentile = 99.99;
  int bins = 2048;
  int64_t batch = 1;  // samples of a run

  PartNumber part;  // 1 of 1: the parts were put together
  int pass = 1;     // 2: it holds counts too
  // The instruction sets that the samples ran with, without repetitions.
  std::vector<std::string> isas;
  std::vector<uint64_t> hashes;   // of its samples; in the second pass of all samples
  std::vector<SeenInput> inputs;  // of the same samples
  std::map<std::string, ValueRecord> values;

  bool whole() const { return part == PartNumber{}; }
};

// The first pass over the samples of a part, or, where `first_pass` is the first pass over all
// samples, the second. `samples` gives those of the part only. Intervals are always observed, and
// `stop_when_enough` must be off. The caller names the model and the instruction set. Errors: those
// of Calibrate, but that a part may have no samples; kInvalidInput for samples or values that are
// not those of the first pass.
Result<CalibrationPart> CalibratePart(const Graph& graph, const PrepareFn& prepare,
                                      const SamplesFn& samples, const CalibrationOptions& options,
                                      PartNumber part, const CalibrationPart* first_pass = nullptr);

// All parts of a pass, in any order, as one. Errors: kInvalidInput for parts that differ in what
// they should have in common, that are missing or that stand twice; names are those of the parts.
Result<CalibrationPart> MergeParts(std::span<const CalibrationPart> parts,
                                   std::span<const std::string> names);

// Whether the observer asks for a second pass over the samples.
bool NeedsSecondPass(const CalibrationPart& whole);

// Ranges of all samples, and what Calibrate notes beside them. Errors: kInvalidInput where there
// is no sample; kUsage for a calibration that is not whole, or lacks its second pass.
Result<Ranges> RangesOf(const CalibrationPart& whole, const Graph& graph,
                        CalibrationNotes* notes = nullptr);
CalibrationOptions OptionsOf(const CalibrationPart& part);

// The file's content; what comes out of a process goes into another unchanged.
nlohmann::json ToJson(const CalibrationPart& part);
// Errors: kInvalidInput naming the field, kUnsupported for another version.
Result<CalibrationPart> ParseCalibrationPart(const nlohmann::json& json);

}  // namespace evoq
