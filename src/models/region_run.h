// The dynamic partitions of a model, running on one sample: what measures and explains a model that
// is no single Program.
#pragma once

#include "models/regions.h"

namespace evoq {

class RegionRun final : public Runnable {
 public:
  // Runs the model on `sample` until every partition that it makes run is prepared, and notes their
  // steps. `threads` as in ExecutorOptions. Errors: those of the runs.
  static Result<std::unique_ptr<RegionRun>> Create(const Graph& lowered,
                                                   std::shared_ptr<PackCache> packs, Isa isa,
                                                   int threads, std::vector<Tensor> sample);

  Result<std::unique_ptr<Runnable>> Fresh(
      std::shared_ptr<ThreadPool> pool = nullptr) const override;

  const Program& program() const override { return trace_->program; }
  const std::vector<KernelPlan>& plans() const override { return trace_->plans; }
  std::span<const int64_t> step_runs() const override { return trace_->runs; }
  int threads() const override { return context_->pool->threads(); }
  const std::vector<TensorType>& input_types() const override { return input_types_; }
  const std::vector<TensorType>& output_types() const override { return output_types_; }
  int64_t arena_bytes() const override { return region_->arena_bytes(); }

  Status Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override;
  Status RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                  std::span<int64_t> step_ns) override;

 private:
  RegionRun() = default;
  std::shared_ptr<RegionContext> context_;
  std::unique_ptr<Region> region_;
  std::shared_ptr<const RegionTrace> trace_;
  std::vector<TensorType> input_types_, output_types_;
};

}  // namespace evoq
