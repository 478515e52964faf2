// A loaded model at any input shape: what the command line, the C++ API and Python run. What only
// some programs link (import, passes, definitions of all operators) is handed in: EngineParts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "engine/padded_run.h"
#include "engine/partitions.h"
#include "engine/preparer.h"
#include "engine/size_counts.h"
#include "engine/tune.h"
#include "runtime/executor.h"

namespace evoq {

struct EngineOptions {
  int threads = 0;            // 0: all physical cores
  InputShapes shapes;         // for symbolic dimensions; may be empty
  bool stored_tuning = true;  // false: every step takes its default, whatever was measured
  // Scale sets follow the input from run to run (docs/adaptive.md); nothing: always the first.
  std::optional<AdaptiveOptions> adaptive = {};
  // The sizes that the model's file declares (its gears, docs/dynamic.md) are prepared from now on,
  // beside the runs, and other sizes that a gear serves meanwhile. Not of an adaptive model.
  bool gears = false;
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
  // The same of bytes in memory, which may go when it returns. `label` names them in messages.
  Result<Loaded> (*import_bytes)(std::span<const std::byte> bytes, const std::string& label,
                                 const InputShapes& shapes) = nullptr;
  // Null: models that need dynamic partitions are refused when they are run.
  std::unique_ptr<Partitions> (*partition)(const PartitionJob& job) = nullptr;
};

// One caller at a time (engine/shared.h serves several). Its executors share their threads: one of
// them runs at a time; Executor::Another gives one with threads of its own.
class Engine {
 public:
  // So many executors are kept, beside those of gears; the one that was not used for the longest
  // time goes.
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
  // Bytes of arenas and scratch that its executors hold, which they share.
  int64_t arena_bytes() const { return memory_->bytes(); }
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
  // What runs inputs now: an executor for them, or a gear of another batch, exactly (engine/
  // same_samples.h). Without an executor: the model runs in dynamic partitions.
  struct Serving {
    std::shared_ptr<Executor> executor;
    std::optional<Padding> padding = {};  // of the gear
  };
  // What is there for inputs like these, which counts as a run: `waited_ms` says that it waited
  // until they were prepared. Nothing: Resolve(ToResolve(inputs)) is to be taken before, which any
  // thread may compute beside other calls; or At(), where it cannot.
  Result<std::optional<Serving>> Find(std::span<const Tensor> inputs,
                                      std::optional<double> waited_ms);
  struct Unserved {
    InputShapes shapes;
    Serving gear;  // that may serve them, or none
  };
  struct Resolved {
    InputShapes shapes;
    Serving serving;
    double ms = 0;
  };
  Unserved ToResolve(std::span<const Tensor> inputs);
  Result<Resolved> Resolve(const Unserved& unserved) const;
  void Take(Resolved resolved);
  // All of that for one caller. Errors: those of At.
  Result<Serving> Serve(std::span<const Tensor> inputs);
  // Counts another run of what Find gave last.
  void CountAgain() { counts_.Ran(*last_, false, std::nullopt); }
  // Until all gears are prepared, and what else was asked for.
  void WaitForGears();
  Preparer* preparer() { return preparer_.get(); }  // null where there are no gears
  GearReport gears() const;

  // What runs the model on inputs like these, to be measured and explained: For's executor, or the
  // dynamic partitions that these inputs make run, on threads of their own, with the inputs as its
  // sample.
  Result<std::shared_ptr<Runnable>> RunnableFor(std::vector<Tensor> inputs);
  // One run of an executor of this model, under `control` where there is one. Returns fresh
  // outputs. Errors: also kIo when the model's file was cut short.
  Result<std::vector<Tensor>> RunOn(Executor& executor, std::span<const Tensor> inputs,
                                    RunControl* control = nullptr,
                                    std::optional<Padding> padding = {}) const;
  // The same into tensors of the caller.
  Status RunInto(Executor& executor, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                 std::optional<Padding> padding, RunControl* control = nullptr) const;
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
    uint64_t used = 0;  // when, in uses
    bool gear = false;
    int64_t batch = 1;  // BatchOf a gear
  };
  // The gear that serves sizes which are not prepared.
  struct ServedBy {
    std::shared_ptr<Executor> gear;
    Padding padding;
    bool asked = false;  // of preparer_
  };
  Engine(Loaded loaded, EngineOptions options, const EngineParts& parts, Isa isa, std::string path);
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
  // A program bound to be run, or a program of one sample that is repeated.
  struct Planned {
    Program program;
    int64_t repeats = 1;
  };
  Result<Planned> PlanFor(const Model& model, const InputShapes& shapes, PackCache& packs) const;
  Result<std::shared_ptr<Executor>> Bind(const Model& model, Planned planned,
                                         const InputShapes& shapes, PackCache& packs) const;
  Result<std::shared_ptr<Executor>> PrepareBeside(const InputShapes& shapes) const;
  bool prepares_beside() const { return adapter_ == nullptr && !model_.plans.empty(); }
  bool IsGear(const InputShapes& shapes) const;
  void AskForGears();
  void TakeWhatIsMade();
  ForShapes* Known(std::span<const Tensor> inputs);
  const ForShapes* GearFor(const InputShapes& shapes) const;
  void Keep(const InputShapes& shapes, std::shared_ptr<Executor> executor);
  InputShapes ShapesOf(std::span<const Tensor> inputs) const;
  Result<std::vector<std::shared_ptr<const Program>>> OtherSets(const Model& model,
                                                                const InputShapes& shapes,
                                                                PackCache& packs) const;
  std::optional<Program> SampleProgram(const Model& model, const Program& batch,
                                       PackCache& packs) const;
  std::shared_ptr<Executor> Use(ForShapes& found);
  Status CheckCount(std::span<const Tensor> inputs) const;
  Model model_;
  std::optional<FirstPlan> first_;  // what Settle made, until it is used
  EngineOptions options_;
  EngineParts parts_;
  Isa isa_;
  std::string in_regions_;
  std::string path_;                  // for messages, "" when it came from no file
  std::shared_ptr<ThreadPool> pool_;  // null before the first use
  std::vector<ForShapes> executors_;
  uint64_t uses_ = 0;
  Prepared prepared_;  // executors
  std::shared_ptr<PackCache> packs_ = std::make_shared<PackCache>();
  std::unique_ptr<Partitions> partitions_;
  std::shared_ptr<Adapter> adapter_;  // of all executors; null: the first scale set
  std::shared_ptr<RunMemory> memory_ = std::make_shared<RunMemory>();
  std::shared_ptr<DerivedWeights> derived_ = std::make_shared<DerivedWeights>();
  SizeCounts counts_;
  SizeCount* last_ = nullptr;  // that ran
  std::map<InputShapes, ServedBy> served_by_;
  std::unique_ptr<Preparer> preparer_;  // the last: it uses the others. Null: nothing is prepared
                                        // beside runs
};

}  // namespace evoq
