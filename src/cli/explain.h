// A model, measured and explained: what the verb explain prints and the planted faults of the
// benchmarks are judged by.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "profile/measure.h"
#include "report/ledger.h"

namespace evoq {

struct ExplainJob {
  std::string model, baseline;  // files; the baseline may be ""
  std::vector<std::string> shapes;
  int batch = 0;
  int threads = 0;
  double duration_s = 2;            // to measure each model
  std::function<void()> host;       // MeasureOptions::host of the model's runs; may be null
  std::vector<std::string> beside;  // files of models to measure in the same rounds
  std::vector<std::string> inputs;  // "NAME=F.npy": content of inputs, where it counts for the time
};

struct MeasuredModel {
  std::string path;  // what it was made from
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Runnable> executor;
  StepProfile profile;
};

struct Explanation {
  Limits limits;
  MeasuredModel model;
  std::optional<MeasuredModel> baseline;
  std::optional<MeasuredModel> attainable;  // where its steps are others than the model's
  std::vector<MeasuredModel> beside;
  std::string attainable_why;  // why no attainable run was measured, where one would have helped
  std::optional<TimeLedger> time;   // with a baseline
  std::optional<ByteLedger> bytes;  // of an .etm
  std::string in_partitions;        // why the model runs in dynamic partitions; "": it does not
};

Result<Explanation> Explain(const ExplainJob& job);

}  // namespace evoq
