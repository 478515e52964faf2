// The data and the ranges of a quantization.
#pragma once

#include "quant/calibration_part.h"
#include "quant/method.h"
#include "workflow/follow.h"
#include "workflow/quantize.h"

namespace evoq {

// In front of errors that real samples may not have.
inline constexpr char kMadeUp[] = "on random samples (--calib and --data give real ones)";

// The files that the job reads, of data perhaps NAME=PATH.
std::vector<std::string> InputFilesOf(const QuantizeJob& job);

// Runs a graph by an engine.
PrepareFn PrepareWithEngine(int threads);

// How the job observes.
CalibrationOptions CalibrationOptionsOf(const QuantizeJob& job);

// The first sample; empty where there is none on disk or in memory.
Result<std::vector<Tensor>> FirstSample(const QuantizeJob& job, const Graph& graph);

// What calibrates and what methods observe layers on: of `shapes` where it is random. Refers to the
// job and to `follow`. Errors: kUsage where the job names no data; `who` asks for it
// ("--scheme int8"). `part`: only these of them.
struct JobSamples {
  SamplesFn each;
  bool random = false;
  std::vector<std::string> warnings = {};  // of the data set
};
Result<JobSamples> SamplesFor(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                              const Follow& follow, const std::string& who, PartNumber part = {});

// The samples that a run on one of them computes apart from each other
// (CalibrationOptions::batch).
Result<int64_t> SamplesOfRun(const QuantizeJob& job, const Graph& graph, const JobSamples& samples);

// What methods observe layers on; nothing where they do not need it and the job names no data.
Result<MethodData> MethodDataFor(const QuantizeJob& job, const MethodChoice& methods,
                                 const Graph& graph, const InputShapes& shapes,
                                 const Follow& follow);

// Those of the job's file or observed on its samples, and in their place those that other tools'
// files give (`outside`); `shapes` are of random samples. Errors: kUsage where the job names no
// data and no other tool's file.
Result<Ranges> FindRanges(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                          const Ranges& outside, const Follow& follow, CalibrationNotes* notes);

// Ranges of one sample: for quantized models of which only the speed matters.
Result<Ranges> RangesOf(const Graph& graph, const std::vector<Tensor>& sample, int threads);

}  // namespace evoq
