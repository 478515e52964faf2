// The ranges of a model's activations as a task of its own, whole or in parts that other processes
// and machines do (docs/calibration.md, "In parts").
#pragma once

#include <string>
#include <vector>

#include "quant/calibration_part.h"
#include "workflow/quantize.h"

namespace evoq {

struct CalibrateJob {
  QuantizeJob quantize;  // the model, the samples and the observer; its other fields say nothing
  std::string output;    // ranges.json; of a part, and of a first pass that a second follows: a
                         // file for `merge`, or for `after`
  std::string part;      // "2/4": this part of the samples only; "": all
  std::string after;     // a merged first pass: the second pass over the part
  std::vector<std::string> merge;  // files of all parts of a pass, put together; no sample is run
};

struct Calibrated {
  std::string model, output;
  bool complete = false;  // the output is a ranges.json
  PartNumber part;
  int pass = 1;
  int64_t samples = 0;             // that it is of
  int64_t ranges = 0;              // of a ranges.json: how many
  bool needs_second_pass = false;  // of merged parts
  std::string samples_enough;      // of QuantizeJob::calib_samples "auto"
  std::vector<std::string> warnings;
  double seconds = 0;
};

// Writes job.output: the ranges.json that Quantize saves for the same job, bit for bit, also when
// it is put together of parts. Errors: kUsage for options that do not fit; those of import, data,
// calibration, MergeParts and files.
Result<Calibrated> CalibrateModel(const CalibrateJob& job, const Follow& follow = {});
Told Tell(const Calibrated& done);

}  // namespace evoq
