// What each quantization scheme would give.
#pragma once

#include <string>
#include <vector>

#include "predict/predict.h"
#include "workflow/follow.h"
#include "workflow/models.h"
#include "workflow/to_measure.h"
#include "workflow/told.h"

namespace evoq {

struct PredictJob {
  std::string model;                 // .onnx
  std::vector<std::string> schemes;  // names of `evoq list schemes`; empty: all
  InputShapes shapes;
  InputFiles inputs;  // content of inputs of a model whose steps depend on data
  int batch = 0;
  std::string limits;  // of another machine: what `evoq limits --json F` wrote there; "": this one
  std::string ranges;  // that were calibrated; "": assumed ones
  bool check = false;  // also run each model
  int threads = 0;
  PhaseChoice phase;  // of a language model with caches; no name: all phases
};

// What is forecast of a phase of a language model.
struct PhaseForecast {
  const PhaseDef* def = nullptr;
  Phase phase;
  Forecast forecast;

  double TokensPerS(double ms) const {
    return 1e3 * static_cast<double>(phase.sequences * phase.tokens) / ms;
  }
};

struct Predicted {
  Forecast forecast;                  // of a language model the last phase's
  std::vector<PhaseForecast> phases;  // of a language model
  std::vector<std::string> warnings;
};

// Errors: kUsage for an .etm and options that do not fit; those of import, and of Predict of a
// graph.
Result<Predicted> Predict(const PredictJob& job, const Follow& follow = {});
Told Tell(const Predicted& predicted);

}  // namespace evoq
