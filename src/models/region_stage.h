// A stage of a region (models/regions.h); internal to the room.
#pragma once

#include <memory>
#include <vector>

#include "models/regions.h"
#include "reference/definition.h"

namespace evoq {

// Values that a stage hands from part to part have slots.
struct RegionStage {
  struct Open {
    Node node;
    const OpDef* op = nullptr;
    const Definition* definition = nullptr;
    std::vector<TensorType> output_types;
    std::vector<TensorType> found_types;  // of the last timed run
    std::vector<int> inputs, outputs;     // slots; -1: omitted
    std::vector<std::unique_ptr<Region>> bodies;
    int64_t ns = 0, runs = 0;
    int row = -1;  // as `rows`
  };

  std::shared_ptr<RegionContext> context;
  std::vector<Tensor> slots;  // constants stay, the others are of one run
  std::vector<int> variable;  // slots that are emptied after a run
  std::vector<int> inputs, outputs;
  std::unique_ptr<Executor> executor;  // null: no node has known sizes
  std::vector<int> program_inputs, program_outputs;
  std::vector<int64_t> step_ns, total_ns;
  int64_t runs = 0;
  std::vector<int> rows;  // of each step of the executor: its step in the RegionTrace; empty where
                          // it is not in one
  std::vector<Open> open;
  std::unique_ptr<Region> rest;  // null: nothing is left
  std::vector<int> rest_inputs, rest_outputs;

  // Of the region's graph, for inputs of these types.
  static Result<std::unique_ptr<RegionStage>> Make(const Graph& graph, Region::Form form,
                                                   const std::shared_ptr<RegionContext>& context,
                                                   std::span<const Tensor> inputs);

  Status RunProgram();
  Status RunOpen(Open& step);
  Status RunRest();
  Result<std::vector<Tensor>> Run(std::span<const Tensor> given);
  std::vector<Tensor> Read(std::span<const int> from) const;
  // The same with memory of its own.
  Result<std::unique_ptr<RegionStage>> Another(const std::shared_ptr<RegionContext>& other) const;
};

}  // namespace evoq
