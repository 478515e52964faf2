// A model, measured and explained.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/models.h"
#include "profile/measure.h"
#include "report/ledger.h"
#include "workflow/follow.h"
#include "workflow/language_parts.h"
#include "workflow/models.h"
#include "workflow/skipped_zeros.h"
#include "workflow/told.h"

namespace evoq {

struct ExplainJob {
  std::string model, baseline;  // files; the baseline may be ""
  InputShapes shapes;
  int batch = 0;
  int threads = 0;
  double duration_s = 2;            // to measure each model
  std::function<void()> host;       // MeasureOptions::host of the model's runs; may be null
  std::vector<std::string> beside;  // files of models to measure in the same rounds
  InputFiles inputs;                // content of inputs, where it counts for the time
  std::string report;               // an HTML file to write; "": none
  std::string eval, baseline_eval;  // of the report: what `evoq eval --json` wrote, or ""
  PhaseChoice phase;                // of a language model with caches
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
  std::optional<MeasuredModel> full;  // without blocks: of a model that skips zeros
  std::optional<SkippedZeros> zeros;
  std::string attainable_why;  // why no attainable run was measured, where one would have helped
  std::optional<TimeLedger> time;   // with a baseline
  std::optional<ByteLedger> bytes;  // of an .etm
  std::string in_partitions;        // why the model runs in dynamic partitions; "": it does not
  bool made_up = false;             // its inputs: none was given
  std::optional<LanguageParts> language;  // of a language model with caches
  std::string report;                     // the file that was written; "": none
};

Result<Explanation> Explain(const ExplainJob& job, const Follow& follow = {});
Told Tell(const Explanation& e);

}  // namespace evoq
