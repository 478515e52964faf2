// A loaded model at any input shape: what the command line, the C++ API and Python run. What only
// some programs link (import, passes, definitions of all operators) is handed in: EngineParts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "engine/partitions.h"
#include "engine/tune.h"
#include "runtime/executor.h"

namespace evoq {

struct EngineOptions {
  int threads = 0;            // 0: all physical cores
  InputShapes shapes;         // for symbolic dimensions; may be empty
  bool stored_tuning = true;  // false: every step takes its default, whatever was measured
  // Scale sets follow the input from run to run (docs/adaptive.md); nothing: always the first.
  std::optional<AdaptiveOptions> adaptive = {};
};

// A model, lowered and packed, or why it is no single Program but runs in dynamic partitions.
struct Loaded {
  Model model;
  std::string in_regions;
};

// The packed model of a graph whose shapes are bound in `bound`; where that is no single Program,
// the graph as it is, without a plan.
Result<Loaded> PackOrSayWhy(Graph lowered, const Graph& bound);

// What an engine is given to work with. room models has all of it, libevoq_runtime little.
struct EngineParts {
  const Evaluator* evaluator = &kNoEvaluator;  // for sizes and for what no kernel takes
  // Reads a model file that is no .etm. Null: such files are refused.
  Result<Loaded> (*import)(const std::string& path, const InputShapes& shapes) = nullptr;
  // Null: models that need dynamic partitions are refused when they are run.
  std::unique_ptr<Partitions> (*partition)(const PartitionJob& job) = nullptr;
};

// One caller at a time (engine/shared.h serves several). Its executors share their threads: one of
// them runs at a time; Executor::Another gives one with threads of its own.
class Engine {
 public:
  // So many executors are kept, each with an arena of its own; the one that was not used for the
  // longest time goes.
  static constexpr size_t kMaxExecutors = 32;

  // .etm: mapped; other files: by parts.import. The parts are kept by value; what they point to
  // must stay.
  static Result<std::unique_ptr<Engine>> Load(const std::string& path, const EngineOptions& options,
                                              const EngineParts& parts);
  // Of what was loaded already. `path` is for messages, "" where it came from no file.
  static Result<std::unique_ptr<Engine>> Of(Loaded loaded, const EngineOptions& options,
                                            const EngineParts& parts, const std::string& path = "");

  const Model& model() const { return model_; }
  // Why the model is no single Program but runs in dynamic partitions (docs/dynamic.md); empty
  // when it is one. Known after the first run of a model with free sizes.
  const std::string& in_regions() const { return in_regions_; }
  // Its dynamic partitions, null where none were made yet.
  const Partitions* partitions() const { return partitions_.get(); }
  // What was prepared so far: Programs for shapes, stages of partitions.
  struct Prepared {
    int64_t count = 0;
    double ms = 0;
  };
  Prepared prepared() const;
  // Bytes of arenas and scratch that its executors hold.
  int64_t arena_bytes() const;
  // Finds out whether the model is one Program at these shapes (by input name; those of all
  // inputs): in_regions() says then.
  Status Settle(const InputShapes& shapes);
  // Of EngineOptions::adaptive: which scale set the next run uses, and what was observed; null
  // without them. The first executor makes the tensors known.
  const AdaptiveState* adaptive() const { return adapter_ ? &adapter_->state() : nullptr; }
  // Which set all further runs use; "": they change again. Errors: kUsage where the engine is not
  // adaptive or has no set of that name.
  Status PinScaleSet(const std::string& name);
  Isa isa() const { return isa_; }
  int threads() const { return options_.threads > 0 ? options_.threads : PhysicalCores(); }
  // The executor for these input shapes; prepared on first use and kept.
  Result<std::shared_ptr<Executor>> At(const InputShapes& shapes);
  // The executor for the shapes given at load (symbols: the plan's, or 1 for the batch).
  Result<std::shared_ptr<Executor>> Default() { return At(options_.shapes); }

  // Measures the choices for these shapes and threads, or takes them from the cache, and uses them
  // from now on.
  Result<TuneReport> Tune(const InputShapes& shapes);

  // The executor for inputs like these (by the graph's order), prepared on first use; null for a
  // model that runs in dynamic partitions.
  Result<std::shared_ptr<Executor>> For(std::span<const Tensor> inputs);
  // What runs the model on inputs like these, to be measured and explained: For's executor, or the
  // dynamic partitions that these inputs make run, on threads of their own, with the inputs as its
  // sample.
  Result<std::shared_ptr<Runnable>> RunnableFor(std::vector<Tensor> inputs);
  // One run of an executor of this model, under `control` where there is one. Returns fresh
  // outputs. Errors: also kIo when the model's file was cut short.
  Result<std::vector<Tensor>> RunOn(Executor& executor, std::span<const Tensor> inputs,
                                    RunControl* control = nullptr) const;
  // The same on memory that the caller has (Executor::RunOn).
  Status RunOn(Executor& executor, std::span<const std::byte* const> inputs,
               std::span<std::byte* const> outputs) const;

  // Inputs by the graph's order; shapes pick the executor, prepared on first use. Returns fresh
  // outputs. A model whose sizes depend on its data, or that has subgraphs, sequences, optionals or
  // strings, runs in dynamic partitions (in_regions()).
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

 private:
  struct ForShapes {
    InputShapes shapes;
    std::shared_ptr<Executor> executor;
  };
  Engine(Loaded loaded, EngineOptions options, const EngineParts& parts, Isa isa, std::string path)
      : model_(std::move(loaded.model)),
        options_(std::move(options)),
        parts_(parts),
        isa_(isa),
        in_regions_(std::move(loaded.in_regions)),
        path_(std::move(path)) {}
  Result<Partitions*> Partitioned();
  Status PackFor(std::span<const Tensor> inputs);
  // A model that came without a plan, with its first one: not the engine's before an executor came
  // of it, so that sizes which fail leave nothing behind.
  struct FirstPlan {
    InputShapes shapes;
    Model model;
  };
  Result<FirstPlan> MakeFirst(const InputShapes& shapes);
  Status CheckFiles() const;
  TuningKey KeyFor(int threads) const;
  const std::shared_ptr<ThreadPool>& Pool();
  Result<std::shared_ptr<Executor>> Prepare(const InputShapes& shapes);
  Result<std::vector<std::shared_ptr<const Program>>> OtherSets(const Model& model,
                                                                const InputShapes& shapes,
                                                                PackCache& packs) const;
  std::optional<Program> SampleProgram(const Model& model, const Program& batch,
                                       PackCache& packs) const;
  std::shared_ptr<Executor> Use(std::vector<ForShapes>::iterator found);
  Model model_;
  std::optional<FirstPlan> first_;  // what Settle made, until it is used
  EngineOptions options_;
  EngineParts parts_;
  Isa isa_;
  std::string in_regions_;
  std::string path_;                  // for messages, "" when it came from no file
  std::shared_ptr<ThreadPool> pool_;  // null before the first use
  std::vector<ForShapes> executors_;  // the last used first
  Prepared prepared_;                 // executors
  std::shared_ptr<PackCache> packs_ = std::make_shared<PackCache>();
  std::unique_ptr<Partitions> partitions_;
  std::shared_ptr<Adapter> adapter_;  // of all executors; null: the first scale set
};

}  // namespace evoq
