// Measures the choices that a rule cannot predict, where the model will run (docs/tuning.md).
#pragma once

#include <string>
#include <vector>

#include "base/isa.h"
#include "base/on_progress.h"
#include "program/model.h"

namespace evoq {

struct TuneOptions {
  int threads = 0;  // 0: all physical cores
  Isa isa = Isa::kScalar;
  const Evaluator* evaluator = &kNoEvaluator;  // as for Compile, as the shapes
  InputShapes shapes;
  std::string cache_path;  // "": measure everything, keep nothing
  double seconds = 4;      // of measuring, about
  OnProgress progress;     // between rounds of runs
};

struct TuneReport {
  int steps = 0;     // that have a choice
  int measured = 0;  // kinds of steps that were measured; the others were in the cache
  int changed = 0;   // steps that do not take their default
  double default_ms = 0, tuned_ms = 0;  // of a run, measured in turn; 0 when nothing was measured
  double seconds = 0;
  std::vector<std::string> warnings;
};

// Runs the model at these shapes with each step's variants in turn, as part of whole runs, so that
// caches are as in earnest; steps of one kind (kernel, shapes, types, attributes) are tuned
// together. The choices go into the plan for these shapes, in place of earlier ones for the same
// machine and threads, and into the cache. When the tuned run as a whole is not faster than the
// default, the defaults stay. Errors: those of Compile, Executor and `progress`; model and cache
// are then as they were.
Result<TuneReport> TuneModel(Model& model, const TuneOptions& options);

}  // namespace evoq
