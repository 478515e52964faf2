// The dynamic partitions of an engine.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/partitions.h"
#include "models/region_run.h"

namespace evoq {

// Regions as an engine has them.
class EngineRegions final : public Partitions {
 public:
  explicit EngineRegions(const PartitionJob& job) : graph_(job.lowered), threads_(job.threads) {
    context_->isa = job.isa;
    context_->packs = job.packs;
  }

  Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs,
                                  const std::shared_ptr<ThreadPool>& pool) override {
    if (region_ == nullptr) {
      context_->pool = pool;
      region_ = std::make_unique<Region>(graph_, Region::Form::kLowered, context_);
    }
    return region_->Run(inputs);
  }
  Result<std::unique_ptr<Runnable>> RunnableFor(std::vector<Tensor> sample) const override {
    return RegionRun::Create(graph_, context_->packs, context_->isa, threads_, std::move(sample));
  }
  int64_t prepared() const override { return context_->prepared; }
  double prepare_ms() const override { return context_->prepare_ms; }
  int64_t arena_bytes() const override { return region_ == nullptr ? 0 : region_->arena_bytes(); }
  int64_t weight_bytes() const override { return region_ == nullptr ? 0 : region_->weight_bytes(); }

  // Null before the first run.
  Region* region() const { return region_.get(); }
  // Notes what each step takes from now on (Region::Collect).
  void Time(bool on) const { context_->timed = on; }

 private:
  const Graph& graph_;
  int threads_;
  std::shared_ptr<RegionContext> context_ = std::make_shared<RegionContext>();
  std::unique_ptr<Region> region_;
};

}  // namespace evoq
