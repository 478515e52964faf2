// A forecast: how large and how fast a model gets under each quantization scheme, before anything
// is calibrated or run.
//
// Each scheme is carried out on the model with assumed ranges (quant/assume.h) or given ones,
// lowered, packed and bound to kernels, so that the file's size and the kernels are those of `evoq
// quantize`. Times come from predict/cost.h.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "engine/engine.h"
#include "predict/cost.h"
#include "profile/machine.h"
#include "quant/quant.h"

namespace evoq {

// A run to forecast.
struct PredictRun {
  InputShapes shapes;
  // Inputs of a model whose steps depend on data, which is run on them to find its steps; and what
  // runs are measured on.
  std::vector<Tensor> sample;
  bool repeats_in_place = false;  // of the sample (Runnable)
};

struct PredictOptions {
  MachineLimits limits;    // of the machine to predict for, with the threads that runs will have
  InputShapes shapes;      // as of quantize: of inputs that the model leaves free
  InputShapes run_shapes;  // of the runs, over `shapes` (a batch); empty: `shapes`
  int64_t float_weight_bytes =
      0;                       // of the model with these shapes, which quantize notes in the file
  std::vector<Tensor> sample;  // of the runs
  Ranges ranges;               // that were calibrated; empty: assumed ones (quant/assume.h)
  std::vector<std::string> schemes;  // names of `evoq list schemes`; empty: all
  bool check = false;  // also run each model and put what is measured beside the forecast
  OnProgress progress;
};

struct StepForecast {
  std::string name, op, kernel, shape;
  Precision precision = Precision::kAny;
  KernelPlan plan;  // of the bound kernel
  const CostFamily* family = nullptr;
  double ms = 0;
  Cut cut;
  Terms terms = {}, weighed = {};  // nanoseconds of one thread (predict/cost.h)
  double measured_ms = -1;         // with `check`
  // It runs by its definition on so many values that it may count: `ms` is no forecast then.
  bool known = true;
};

// Steps that take as long as in float32, or longer, or that float32 does not have, and why.
struct Hindrance {
  std::string code;  // docs/predict.md
  std::string sentence;
  std::vector<std::string> steps;
  double ms = 0;       // that they take under this scheme
  double lost_ms = 0;  // of that, beyond what they take in float32
};

// kSame: within 5% of float32; kNotKnown: a step of either has no known time.
enum class Payoff { kFaster, kSame, kSlower, kNotKnown };
const char* PayoffName(Payoff payoff);  // "faster", ...
Payoff PayoffOf(double speedup);        // against float32

struct SchemeForecast {
  std::string scheme;
  std::string unavailable;  // why there is no forecast; empty when there is one
  int64_t file_bytes = 0;   // of the .etm that quantize writes
  int64_t weight_bytes = 0, arena_bytes = 0;
  PrecisionCounts steps;
  // Of a run: the likely one, and what nine of ten lie between; without the steps of `unknown`.
  double ms = 0, low_ms = 0, high_ms = 0;
  std::vector<std::string> unknown;  // steps whose time is not known
  double speedup = 1;                // against float32's ms; of kNotKnown it says nothing
  Payoff payoff = Payoff::kSame;
  std::vector<StepForecast> step_list;
  std::vector<Hindrance> hindrances;  // the costliest first
  double measured_ms = -1;            // with `check`
  double machine_share =
      -1;  // of limits.fp32_gflops, that the machine gave just before and after measuring
};

struct Forecast {
  std::string model;
  MachineLimits limits;
  FittedOn constants = {"", Isa::kScalar};  // whose were taken
  int64_t float_weight_bytes = 0;
  std::string in_partitions;            // why the steps are those of a run on the sample (dynamic
                                        // partitions); "": they follow from the sizes
  std::vector<SchemeForecast> schemes;  // float32 first
};

// `optimized`: as LoadOptimizedGraph gives it. Errors: kUsage for a scheme or shapes that do not
// fit; those of compiling the float32 model. Another scheme that cannot be carried out says so in
// `unavailable`.
Result<Forecast> Predict(const Graph& optimized, const std::string& name,
                         const PredictOptions& options);
// The same of several runs of one model, at least one: a forecast each. Of the options `run_shapes`
// and `sample` say nothing.
Result<std::vector<Forecast>> PredictRuns(const Graph& optimized, const std::string& name,
                                          const PredictOptions& options,
                                          std::span<const PredictRun> runs);

// Fills `hindrances` of a scheme (predict/hindrances.cc).
void FindHindrances(const SchemeForecast& float32, const Program& program,
                    const MachineLimits& limits, SchemeForecast& scheme);

nlohmann::json ToJson(const Forecast& forecast);
std::string ToText(const Forecast& forecast);

}  // namespace evoq
