// Runs a graph that is no single Program: sizes depend on its data, it has subgraphs, or values other than tensors of numbers.
//
// For the types of inputs at hand the graph is cut into stages. A stage is a Program of every node whose sizes follow from the
// stage's inputs, and then the *open* nodes that are next: NonZero, Loop, a Reshape to a computed shape, ... Those are computed by
// their definition, but for their subgraphs, each of which is a region of its own. What is left is a region whose inputs are
// what the stage has computed. Stages are prepared when types come in for the first time, and kept.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/executor.h"

namespace evoq {

// What the regions of one model share.
struct RegionContext {
  Isa isa = Isa::kScalar;
  std::shared_ptr<ThreadPool> pool;
  bool timed = false;      // note what each step takes
  int64_t prepared = 0;    // stages so far
  double prepare_ms = 0;   // what that took
};

// A step of a stage, and what it took in timed runs.
struct RegionStep {
  std::string name, op, kernel, precision;
  int64_t macs = 0, bytes = 0;  // of one execution
  int64_t ns = 0, runs = 0;     // in timed runs, sums
};

class Region {
 public:
  enum class Form {
    kLowered,  // the passes have run
    kRaw,      // a subgraph: the passes run when its inputs' types are known
  };
  // `bound` holds the data of inputs that never change (empty: none does); undefined for the others.
  Region(Graph graph, Form form, std::shared_ptr<RegionContext> context, const std::vector<Tensor>& bound = {});
  ~Region();

  // One run at a time. Errors: kUsage for inputs that do not fit the graph; those of a definition on data that it refuses.
  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs);

  // The steps of all stages so far, subgraphs after the step that runs them; names of those begin with its name.
  void Collect(const std::string& prefix, std::vector<RegionStep>& steps) const;
  void ResetTimes();
  // Arenas and constants of all stages so far.
  int64_t arena_bytes() const;
  int64_t weight_bytes() const;

 private:
  struct Stage;
  using Key = std::vector<int64_t>;  // kinds, element types and sizes of the inputs
  Result<std::unique_ptr<Stage>> Prepare(std::span<const Tensor> inputs) const;

  Graph graph_;
  Form form_;
  std::shared_ptr<RegionContext> context_;
  std::map<Key, std::unique_ptr<Stage>> stages_;
  std::set<Key> seen_;  // types that came once after many others
};

}  // namespace evoq
