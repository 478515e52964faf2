// Models that are no single Program (docs/dynamic.md), as an engine runs them; room models has
// them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/isa.h"
#include "base/thread_pool.h"
#include "compile/pack_cache.h"
#include "runtime/runnable.h"

namespace evoq {

// Which model to part, and for what.
struct PartitionJob {
  const Graph& lowered;  // outlives the partitions
  Isa isa = Isa::kScalar;
  int threads = 0;  // as in ExecutorOptions
  std::shared_ptr<PackCache> packs;
};

// One run at a time.
class Partitions {
 public:
  Partitions() = default;
  virtual ~Partitions() = default;
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  // One run on the threads of `pool`, which is the same in all runs. Returns fresh outputs.
  virtual Result<std::vector<Tensor>> Run(std::span<const Tensor> inputs,
                                          const std::shared_ptr<ThreadPool>& pool) = 0;
  // The partitions that these inputs make run, on threads of their own, with the inputs as sample.
  virtual Result<std::unique_ptr<Runnable>> RunnableFor(std::vector<Tensor> sample) const = 0;

  // Of those that are kept for Run: how many were prepared and what that took, the memory of their
  // arenas, and the constants that they read, those that several read once.
  virtual int64_t prepared() const = 0;
  virtual double prepare_ms() const = 0;
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace evoq
