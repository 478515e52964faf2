// A loaded model, whatever file it came from, at any input shape: what the command line, the C++ API and Python run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "engine/tune.h"
#include "passes/pass.h"
#include "runtime/executor.h"

namespace evoq {

struct EngineOptions {
  int threads = 0;          // 0: all physical cores
  InputShapes shapes;       // for symbolic dimensions; may be empty
  bool stored_tuning = true;  // false: every step takes its default, whatever was measured
};

class Engine {
 public:
  // .onnx: imported, optimized, lowered, packed. .etm: mapped.
  static Result<std::unique_ptr<Engine>> Load(const std::string& path, const EngineOptions& options = {});
  // From an optimized (not lowered) graph.
  static Result<std::unique_ptr<Engine>> FromGraph(Graph graph, const EngineOptions& options = {});

  const Model& model() const { return model_; }
  // Why the model cannot be compiled; empty when it can.
  const std::string& needs_evaluator() const { return needs_evaluator_; }
  // The executor for these input shapes; prepared on first use and kept.
  Result<Executor*> At(const InputShapes& shapes);
  // The executor for the shapes given at load (symbols: the plan's, or 1 for the batch).
  Result<Executor*> Default() { return At(options_.shapes); }

  // Measures the choices for these shapes and threads, or takes them from the cache, and uses them from now on.
  Result<TuneReport> Tune(const InputShapes& shapes);

  // Inputs by the graph's order; shapes pick the executor. Returns fresh outputs. A model whose sizes depend on its data, or
  // that has sequences, optionals or strings, has no plan: it is computed by its definition, slowly (needs_evaluator()).
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

 private:
  Engine(Model model, EngineOptions options, Isa isa, std::string path = "")
      : model_(std::move(model)), options_(std::move(options)), isa_(isa), path_(std::move(path)) {}
  Status PackFor(std::span<const Tensor> inputs);
  Status Pack(const InputShapes& shapes);
  TuningKey KeyFor(int threads) const;
  Result<std::unique_ptr<Executor>> Prepare(const InputShapes& shapes);
  std::optional<Program> SampleProgram(const Program& batch, int threads) const;
  Model model_;
  EngineOptions options_;
  Isa isa_;
  std::string needs_evaluator_;
  std::string path_;  // for messages, "" when it came from no file
  std::map<InputShapes, std::unique_ptr<Executor>> executors_;
};

// Import and the optimize passes: what quantize, inspect and optimize start from.
Result<Graph> LoadOptimizedGraph(const std::string& onnx_path, const PassOptions& passes = {});

// Optimized graph -> packed model (lower passes, packing, first plan). A model whose sizes depend on its data, or that has
// sequences, optionals or strings, comes without a plan.
Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes = {});

}  // namespace evoq
