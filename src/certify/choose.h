// Chooses the precision of each layer by measured speed and accuracy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "certify/accuracy.h"
#include "certify/speed.h"
#include "quant/mixed.h"

namespace evoq {

struct ChooseJob {
  Graph graph;         // optimized; its free sizes stay free
  InputShapes shapes;  // of the inputs, to measure speed at
  Ranges ranges;
  QuantizeOptions options;
  AccuracyLimit limit;
  int threads = 0;  // 0: all physical cores
  double seconds =
      60;  // of trying and measuring: nothing is begun later, once float32 was measured
  OnStage progress;
  Watch* watch = ThisMachine();
  CalmRunsFn runs = CalmRuns;
  CalmStepsFn steps = CalmSteps;
};

// A plan that was measured in earnest.
struct TriedPlan {
  std::string name;  // a scheme on every layer, or "mixed"
  double ms = 0;
  Accuracy accuracy;
  bool keeps = false;  // the limit
};

struct ChosenPlan {
  MixedPlan plan;
  std::vector<TriedPlan> tried;
  int accuracies = 0;  // measured on all samples
  int candidates = 0;  // compiled
  double seconds = 0;
  bool out_of_time = false;  // before the search had ended by itself
};

// 1. Every scheme on all layers, measured by steps: what each layer costs in it; half-and-half
// plans: what conversions between
//    them cost (quant/search.h).
// 2. The fastest plan of that model; where it loses too much, the noise that each layer adds to the
// outputs, and the search
//    with the samples as judge.
// 3. Changes of single layers that the model calls about as fast, measured against the plan in
// whole runs.
// 4. Where accuracy stands in the way of the fastest plan: further plans, in the order of what the
// model says they take, while
//    there is time.
// 5. The result against the uniform plans that keep the limit, in whole runs: the fastest is
// chosen. Errors: of quantization, compilation and runs; kUnsupported for a graph without layers or
// one that cannot be compiled.
Result<ChosenPlan> ChoosePrecisions(const ChooseJob& job, const Samples& samples,
                                    const Answers& reference, Metric metric);

}  // namespace evoq
