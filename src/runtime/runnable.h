// What runs a model on inputs of given sizes, step by step: a Program (runtime/executor.h), or the
// dynamic partitions of a model that is no single Program (models/region_run.h). What measures,
// compares and explains models does so through this.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernel.h"
#include "program/model.h"

namespace evoq {

// One run at a time.
class Runnable {
 public:
  Runnable() = default;
  virtual ~Runnable() = default;
  Runnable(const Runnable&) = delete;
  Runnable& operator=(const Runnable&) = delete;

  // The same model with the same options and sample, and memory of its own: with threads of its
  // own, or those of `pool`, as many as threads().
  virtual Result<std::unique_ptr<Runnable>> Fresh(
      std::shared_ptr<ThreadPool> pool = nullptr) const = 0;

  // The steps of a run, in order, to be read. Of dynamic partitions: those that ran for the sample,
  // joined to one program; a step that runs several times, as the body of a loop does, stands once,
  // with the macs and bytes of all its times.
  virtual const Program& program() const = 0;
  // How each step's kernel goes about it, by step.
  virtual const std::vector<KernelPlan>& plans() const = 0;
  // How often each step runs in one run; empty: repeats() times.
  virtual std::span<const int64_t> step_runs() const { return {}; }
  virtual int threads() const = 0;
  virtual int64_t repeats() const { return 1; }
  // Types of the inputs and outputs, in the graph's order; where sizes depend on data, those that
  // the sample gives.
  virtual const std::vector<TensorType>& input_types() const = 0;
  virtual const std::vector<TensorType>& output_types() const = 0;
  // Bytes of arenas and scratch that it holds.
  virtual int64_t arena_bytes() const = 0;

  // Runs once. `outputs`, of output_types(), are written in place, or, where sizes depend on data,
  // replaced. Errors: kUsage for tensors of other types; those of a step, on data that it refuses.
  virtual Status Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
  // As Run, and writes each step's nanoseconds (program().steps.size() of them), summed where it
  // runs several times.
  virtual Status RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                          std::span<int64_t> step_ns) = 0;

  // The input whose memory the caller may give to an output too, or -1: the output then takes the
  // input's place, as a cache that a run extends, and the step that makes it moves nothing but what
  // is new. All other outputs have memory of their own.
  virtual int shared_input(size_t /*output*/) const { return -1; }

  // Inputs to measure with, where their content counts for the time; empty: any content will do.
  const std::vector<Tensor>& sample() const { return sample_; }
  // Whether outputs of runs on the sample take their inputs' places: a run may then repeat on what
  // the one before left, as one that writes the same tokens into its caches again.
  bool repeats_in_place() const { return repeats_in_place_; }
  void UseSample(std::vector<Tensor> sample, bool repeats_in_place = false) {
    sample_ = std::move(sample);
    repeats_in_place_ = repeats_in_place;
  }

 private:
  std::vector<Tensor> sample_;
  bool repeats_in_place_ = false;
};

}  // namespace evoq
