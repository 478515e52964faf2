// Training: labelled samples in, a model out (docs/training.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/trainer.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct TrainJob {
  std::string model;       // a network (train/networks.inc), its JSON (docs/nn.md), or an .onnx
  SampleFiles files;       // as FindSamples completes them
  std::string preprocess;  // "": the network's, or MODEL.preprocess.json beside the model
  std::string output;      // .onnx or .etm; with recipe.lora also a folder, of the adapters alone
  int64_t limit = 0;       // so many samples to train on; 0: all
  std::string checkpoint, resume;
  std::string teacher;      // a model whose scores this one learns from too; "": none
  std::string tokenizer;    // of texts; "": they are read byte by byte
  double hold_out = 0.1;    // of a text without a file to test on, the share that tests
  std::string tensorboard;  // a folder that gets an event file; "": none
  std::string log;          // a file that gets a line of JSON for each epoch, at its end; "": none
  TrainingRecipe recipe;
  bool mpi = false;  // one of the processes that mpirun started (train/ranks.h)
  int threads = 0;
  std::function<void(const EpochReport&)> epoch;  // hears of each; may be null
};

// What training begins from: the network's recipe, or that of fine-tuning an .onnx, with the
// integers of a scheme or ("") with float32.
TrainingRecipe RecipeFor(const std::string& model, const std::string& scheme = "",
                         const std::string& lora = "");
// What it does with targets of real numbers (SampleFiles::targets) where no loss is asked for.
inline constexpr char kLossOfTargets[] = "mse";

struct Trained {
  std::string model, output;
  // Files written beside the output; "": none.
  std::string preprocess, tokenizer;
  int64_t samples = 0, test_samples = 0;
  bool real_targets = false;  // in place of labels
  TrainingRecipe recipe;
  TrainingOutcome outcome;
  int64_t output_bytes = 0;
  // With a scheme: which nodes compute with integers, and on how many test samples their simulation
  // agrees with what was compiled.
  PrecisionCounts nodes;
  Reasons float_reasons;
  std::optional<Agreement> agreement;
  // With a weights-only scheme: how many layers have weights of each type ("int4"), and what the
  // model does on test samples as it is written.
  std::map<std::string, int> weights;
  std::optional<Measured> written;
  int processes = 1;  // with mpi: how many trained together,
  bool told = true;   // and whether this is the one that writes and says it
  std::vector<std::string> warnings;
  int adapters = 0;             // with recipe.lora: how many there are
  int64_t adapter_numbers = 0;  // and their numbers
};

// Trains and writes the output, and beside it OUTPUT.preprocess.json, by which `evoq eval` reads
// the same data; of texts that are read byte by byte, OUTPUT.tokenizer.json. Errors: those of
// TrainGraph, of the data and of files, all before training where they can be known then.
Result<Trained> Train(const TrainJob& job, const Follow& follow = {});
Told Tell(const Trained& trained);

// One line of the log, and of --json's epochs.
nlohmann::json ToJson(const EpochReport& report);

}  // namespace evoq
