// Runs a graph that is no single Program, in dynamic partitions (docs/dynamic.md): sizes depend on
// its data, it has subgraphs, or values other than tensors of numbers. The code calls a partition a
// region.
//
// For the types of inputs at hand the graph is cut into stages. A stage is a Program of every node
// whose sizes follow from the stage's inputs, and then the *open* nodes that are next: NonZero,
// Loop, a Reshape to a computed shape, ... Those are computed by their definition, but for their
// subgraphs, each of which is a region of its own. What is left is a region whose inputs are what
// the stage has computed. Stages are prepared when types come in, and kept while they are of use:
// at most 32 of a region.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compile/pack_cache.h"
#include "runtime/executor.h"

namespace evoq {

// The kernel of a step that runs subgraphs.
inline constexpr char kSubgraphKernel[] = "subgraph";

// What the regions of one model share.
struct RegionContext {
  Isa isa = Isa::kScalar;
  std::shared_ptr<ThreadPool> pool;
  // Keeps the model's constants; shared with contexts of the same model, one caller at a time.
  std::shared_ptr<PackCache> packs = std::make_shared<PackCache>();
  bool timed = false;     // note what each step takes
  int64_t prepared = 0;   // stages so far
  double prepare_ms = 0;  // what that took
};

// A step of a stage, and what it took in timed runs.
struct RegionStep {
  std::string name, op, kernel;
  Precision precision = Precision::kAny;
  int64_t macs = 0, bytes = 0;  // of one execution
  // In timed runs, sums. The steps of subgraphs have times of their own, which the step that runs
  // them does not count.
  int64_t ns = 0, runs = 0;
};

// What a run of a region consists of, joined to one program to be read, not run
// (runtime/runnable.h).
struct RegionTrace {
  Program program;
  std::vector<KernelPlan> plans;
  std::vector<int64_t> runs;  // of each step in one run
};

struct RegionStage;
class RegionTracer;

class Region {
 public:
  enum class Form {
    kLowered,  // the passes have run
    kRaw,      // a subgraph: the passes run when its inputs' types are known
  };
  // `bound` holds the data of inputs that never change (empty: none does); undefined for the
  // others.
  Region(Graph graph, Form form, std::shared_ptr<RegionContext> context,
         const std::vector<Tensor>& bound = {});
  ~Region();
  // The same region with its stages, with memory of its own, in another context of the same model.
  Result<std::unique_ptr<Region>> Another(const std::shared_ptr<RegionContext>& context) const;

  // One run at a time. Errors: kUsage for inputs that do not fit the graph; those of a definition
  // on data that it refuses.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

  // The steps of all stages that are kept, subgraphs after the step that runs them; names of those
  // begin with its name.
  void Collect(const std::string& prefix, std::vector<RegionStep>& steps) const;
  void ResetTimes();
  // What ran since ResetTimes, in timed runs: once. From then on AddTimes counts these steps.
  Result<RegionTrace> Trace();
  // Adds what each step of the trace took since ResetTimes; returns the sum.
  int64_t AddTimes(std::span<int64_t> step_ns) const;
  // Arenas of all stages that are kept.
  int64_t arena_bytes() const;
  // Constants that their Programs read, those that several read once.
  int64_t weight_bytes() const;

 private:
  using Key = std::vector<int64_t>;  // kinds, element types and sizes of the inputs
  // Types of inputs that came, with their stage; null where they were run by definition.
  struct Seen {
    std::unique_ptr<RegionStage> stage;
    int64_t last = 0;  // the run, by number, that brought them
  };
  Region(std::shared_ptr<const Graph> graph, Form form, std::shared_ptr<RegionContext> context);
  void AddTo(RegionTracer& tracer, const std::string& prefix, std::span<const ValueId> inputs,
             std::vector<ValueId>& outputs);
  void AddWeights(std::map<const std::byte*, int64_t>& bytes) const;
  Result<RegionStage*> StageFor(Key key, std::span<const Tensor> inputs);
  std::map<Key, Seen>::iterator Oldest(bool with_stage);
  bool IsWorthAStage(bool again, int64_t unused) const;
  void MakeRoom();

  std::shared_ptr<const Graph> graph_;
  Form form_;
  std::shared_ptr<RegionContext> context_;
  std::map<Key, Seen> seen_;
  size_t stages_ = 0;  // of seen_
  int64_t macs_ = 0;   // the most that the Program of a stage has
  int64_t runs_ = 0;
};

}  // namespace evoq
