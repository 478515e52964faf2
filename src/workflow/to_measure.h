// Models to measure: loaded at the sizes and on the inputs that are asked for, also those that run
// in dynamic partitions (docs/dynamic.md).
#pragma once

#include <string>
#include <vector>

#include "llm/phase.h"
#include "profile/measure.h"
#include "workflow/models.h"

namespace evoq {

// The sizes of all inputs: of what is `given`, else of `shapes`, else the model's, free first sizes
// being 1. Errors: kUsage for a size that nobody names.
Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const InputContents& given);

// The phase of a language model with caches that is measured where neither shapes, inputs nor a
// batch say what runs.
struct PhaseChoice {
  std::string name;  // of AllPhases(); "": decode, of such a model
  PhaseOptions options;

  bool given() const { return !name.empty() || !(options == PhaseOptions()); }
};

// What is measured of a model.
struct WhatToMeasure {
  InputShapes shapes;
  InputFiles inputs;
  int batch = 0;
  bool stored_tuning = true;
  PhaseChoice phase;

  // Whether something says what runs besides the phase.
  bool says_inputs() const { return !shapes.empty() || !inputs.empty() || batch > 0; }
};
// A phase of a model, with all inputs of a run.
struct ChosenPhase {
  const PhaseDef* def;
  Phase phase;
  PhaseInputs inputs;
};
// Nothing for a model without caches. Errors: kUsage for a phase of such a model, one that the
// model does not hold and one that nobody knows.
Result<std::optional<ChosenPhase>> ChoosePhase(const Graph& graph, const PhaseChoice& choice);

// Errors: kUsage where a phase is asked for beside inputs, or of a model that has none.
Status CheckPhase(const Graph& graph, const WhatToMeasure& what);

struct ModelToMeasure {
  std::unique_ptr<Engine> engine;
  InputShapes shapes;                // for Engine::At; of all inputs where it runs in partitions
  InputContents contents;            // of the files
  bool in_partitions = false;        // no single Program: for Engine::Run
  std::optional<ChosenPhase> phase;  // where it says the shapes and contents
};
// Errors: those of loading, of ReadInputs and of ShapesToMeasure.
Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads,
                                     const WhatToMeasure& what);

// The same of an engine that is loaded.
Result<ModelToMeasure> ToMeasure(std::unique_ptr<Engine> engine, const WhatToMeasure& what);

// The model at other sizes, batch or inputs. Errors: as of LoadToMeasure.
Status Settle(ModelToMeasure& m, const WhatToMeasure& what);

// Inputs of these sizes in the graph's order: what is given, else FillForSpeed. Errors: kUsage for
// an input that numbers cannot fill.
Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes,
                                            const InputContents& given);

// What runs it: the executor, or the dynamic partitions that the inputs make run. Its sample are
// the inputs, where files or partitions make their content count.
Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m);

// What runs it, after a first run, with what it ran on.
struct FirstRun {
  std::shared_ptr<Runnable> runnable;
  RunBuffers buffers;
  double ready_ms = 0;  // to prepare it for these shapes
  double first_ms = 0;  // of the run; of partitions with ready_ms, for the run prepares them
};
Result<FirstRun> RunFirst(const ModelToMeasure& m);

// Measures each step's choices for the shapes. `path` is for messages. Errors: kUsage for a model
// in partitions.
Result<TuneReport> TuneToMeasure(const ModelToMeasure& m, const std::string& path);

// Errors: kUsage for several streams of a model in partitions. `path` is for messages.
Status CheckStreams(const ModelToMeasure& m, const std::string& path, int streams);

// Gives models without a sample that of the others, so that all are measured on the same inputs.
// `names` are for messages. Errors: kUsage where they do not take it.
Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names);

}  // namespace evoq
