// Runs a Program.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/isa.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/derived.h"
#include "program/model.h"
#include "runtime/adapter.h"
#include "runtime/run_control.h"
#include "runtime/run_memory.h"
#include "runtime/runnable.h"

namespace evoq {

struct ExecutorOptions {
  int threads = 0;  // 0: all physical cores
  Isa isa = Isa::kScalar;
  // The program is run so many times, over equal slices of inputs and outputs along axis 0: samples
  // of a batch that do not depend on each other (compile/batch.h). With several threads each takes
  // whole runs, with an arena of its own.
  int64_t repeats = 1;
  // Threads to share with executors that never run at the same time; null: `threads` of its own.
  std::shared_ptr<ThreadPool> pool;
  // The same program under the other scale sets of its model, in the model's order behind the first
  // one: the same steps and places, other types and constants (docs/adaptive.md). `adapter` says
  // before each run which of them it uses. Not with repeats.
  std::vector<std::shared_ptr<const Program>> sets;
  std::shared_ptr<Adapter> adapter;
  // Memory to share with executors that never run at the same time; null: memory of its own.
  std::shared_ptr<RunMemory> memory = {};
  // Where executors of one model share what kernels derive from its weights; null: they do not, but
  // with Another.
  std::shared_ptr<DerivedWeights> derived = {};
};

// A program bound to kernels, with its own arena and threads, or those that it shares. One run at a
// time; for concurrent
// streams make one each (they share the program's constants).
class Executor final : public Runnable {
 public:
  // Errors: kTooLarge when arena, scratch, inputs and outputs do not fit the machine;
  // kInvalidInput, kUnsupported from a kernel; kUnsupported for a step without one whose definition
  // the program's evaluator lacks.
  static Result<std::unique_ptr<Executor>> Create(std::shared_ptr<const Program> program,
                                                  const ExecutorOptions& options);
  ~Executor() override;
  // A second executor of the same program with the same options, for a concurrent stream: with
  // threads of its own, or those of `pool`, as many as threads(), and memory of its own, or that of
  // `memory`. Of an adaptive one: with an adapter of its own, which begins anew.
  Result<std::unique_ptr<Executor>> Another(std::shared_ptr<ThreadPool> pool = nullptr,
                                            std::shared_ptr<RunMemory> memory = nullptr) const;
  Result<std::unique_ptr<Runnable>> Fresh(
      std::shared_ptr<ThreadPool> pool = nullptr) const override;

  const Program& program() const override;
  int threads() const override;
  int64_t repeats() const override;
  // Types of the inputs and outputs, in the graph's order; dimension 0 is the program's times
  // repeats().
  const std::vector<TensorType>& input_types() const override;
  const std::vector<TensorType>& output_types() const override;

  int shared_input(size_t output) const override;

  // Runs once. Tensors must have exactly these types (kUsage otherwise, naming the input); outputs
  // must be writable, and apart from inputs and each other but for shared_input() (kUsage
  // otherwise). Allocates nothing, unless a step has only the reference evaluator. Errors:
  // also those of such a step, on data that its definition refuses (an index out of range); the
  // outputs are then meaningless.
  Status Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override;
  // As Run, asking `control` before each step whether to go on. Errors: also kConditionFailed where
  // it is to end; the outputs are then meaningless.
  Status Run(std::span<const Tensor> inputs, std::span<Tensor> outputs, RunControl& control);

  // As Run, on memory of exactly input_types() and output_types(), dense, aligned as those types
  // are; outputs are apart from inputs but for shared_input(): nothing is checked.
  Status RunOn(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs);

  // As Run, and writes each step's nanoseconds (program().steps.size() of them), of all repeats:
  // where threads take whole runs, the mean over threads.
  Status RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                  std::span<int64_t> step_ns) override;

  const std::vector<KernelPlan>& plans() const override;
  // Of an adaptive one: runs from one look at clipped elements to the next; 0: it is not.
  int look_every() const;
  // Bytes of arenas and scratch that a run takes.
  int64_t arena_bytes() const override;

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evoq
