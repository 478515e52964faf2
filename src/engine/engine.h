// A loaded model, whatever file it came from, at any input shape: what the command line, the C++
// API and Python run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "engine/regions.h"
#include "engine/tune.h"
#include "passes/pass.h"
#include "runtime/executor.h"

namespace evoq {

struct EngineOptions {
  int threads = 0;            // 0: all physical cores
  InputShapes shapes;         // for symbolic dimensions; may be empty
  bool stored_tuning = true;  // false: every step takes its default, whatever was measured
};

// One caller at a time (engine/shared.h serves several). Its executors share their threads: one of
// them runs at a time; Executor::Another gives one with threads of its own.
class Engine {
 public:
  // So many executors are kept, each with an arena of its own; the one that was not used for the
  // longest time goes.
  static constexpr size_t kMaxExecutors = 32;

  // .onnx: imported, optimized, lowered, packed. .etm: mapped.
  static Result<std::unique_ptr<Engine>> Load(const std::string& path,
                                              const EngineOptions& options = {});
  // From an optimized (not lowered) graph.
  static Result<std::unique_ptr<Engine>> FromGraph(Graph graph, const EngineOptions& options = {});

  const Model& model() const { return model_; }
  // Why the model is no single Program but runs in regions (engine/regions.h); empty when it is
  // one. Known after the first run of a model with free sizes.
  const std::string& in_regions() const { return in_regions_; }
  // Its regions, null before the first run and where it has none.
  Region* regions() { return regions_.get(); }
  // What was prepared so far: Programs for shapes, stages of regions.
  struct Prepared {
    int64_t count = 0;
    double ms = 0;
  };
  Prepared prepared() const;
  // Finds out whether the model is one Program at these shapes (by input name; those of all
  // inputs): in_regions() says then.
  Status Settle(const InputShapes& shapes);
  Isa isa() const { return isa_; }
  int threads() const { return options_.threads > 0 ? options_.threads : PhysicalCores(); }
  // Notes what each step of the regions takes from now on (Region::Collect).
  void TimeRegions(bool on) { region_context_->timed = on; }
  // The executor for these input shapes; prepared on first use and kept.
  Result<std::shared_ptr<Executor>> At(const InputShapes& shapes);
  // The executor for the shapes given at load (symbols: the plan's, or 1 for the batch).
  Result<std::shared_ptr<Executor>> Default() { return At(options_.shapes); }

  // Measures the choices for these shapes and threads, or takes them from the cache, and uses them
  // from now on.
  Result<TuneReport> Tune(const InputShapes& shapes);

  // The executor for inputs like these (by the graph's order), prepared on first use; null for a
  // model that runs in regions.
  Result<std::shared_ptr<Executor>> For(std::span<const Tensor> inputs);
  // What runs the model on inputs like these, to be measured and explained: For's executor, or the
  // dynamic partitions that these inputs make run, on threads of their own, with the inputs as its
  // sample.
  Result<std::shared_ptr<Runnable>> RunnableFor(std::vector<Tensor> inputs);
  // One run of an executor of this model. Returns fresh outputs. Errors: also kIo when the model's
  // file was cut short.
  Result<std::vector<Tensor>> RunOn(Executor& executor, std::span<const Tensor> inputs) const;
  // The same on memory that the caller has (Executor::RunOn).
  Status RunOn(Executor& executor, std::span<const std::byte* const> inputs,
               std::span<std::byte* const> outputs) const;

  // Inputs by the graph's order; shapes pick the executor, prepared on first use. Returns fresh
  // outputs. A model whose sizes depend on its data, or that has subgraphs, sequences, optionals or
  // strings, runs in regions (in_regions()).
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

 private:
  struct ForShapes {
    InputShapes shapes;
    std::shared_ptr<Executor> executor;
  };
  Engine(Model model, EngineOptions options, Isa isa, std::string path = "")
      : model_(std::move(model)),
        options_(std::move(options)),
        isa_(isa),
        path_(std::move(path)),
        region_context_(std::make_shared<RegionContext>()) {}
  Result<std::vector<Tensor>> RunRegions(std::span<const Tensor> inputs);
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
  std::optional<Program> SampleProgram(const Model& model, const Program& batch,
                                       PackCache& packs) const;
  std::shared_ptr<Executor> Use(std::vector<ForShapes>::iterator found);
  Model model_;
  std::optional<FirstPlan> first_;  // what Settle made, until it is used
  EngineOptions options_;
  Isa isa_;
  std::string in_regions_;
  std::string path_;                  // for messages, "" when it came from no file
  std::shared_ptr<ThreadPool> pool_;  // null before the first use
  std::vector<ForShapes> executors_;  // the last used first
  Prepared prepared_;                 // executors
  std::shared_ptr<RegionContext> region_context_;
  std::unique_ptr<Region> regions_;
};

// Import and the optimize passes: what quantize, inspect and optimize start from.
Result<Graph> LoadOptimizedGraph(const std::string& onnx_path, const PassOptions& passes = {});

// Optimized graph -> packed model (lower passes, packing, first plan). Sizes that the graph leaves
// free stay free; the plan is for `shapes`. Comes without a plan: a model whose sizes depend on its
// data, or that has sequences, optionals or strings; one with free sizes that `shapes`, being
// empty, does not name.
Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes = {});

}  // namespace evoq
