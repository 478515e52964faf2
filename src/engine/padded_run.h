// Runs on an executor of another batch: what serves a batch that is not prepared (docs/dynamic.md).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/executor.h"

namespace evoq {

// The batch of an executor whose samples do not depend on each other (compile/batch.h) and have
// whole bytes; 1 of every other one.
int64_t BatchOf(const Executor& executor);

// How many samples there are for an executor of a batch of how many, 2 or more.
struct Padding {
  int64_t samples = 0, batch = 0;
};

// The types of the outputs of such a run.
std::vector<TensorType> OutputTypesFor(const Executor& executor, Padding padding);

// Runs the samples in pieces of a batch. The last piece is filled up with copies of the last
// sample, whose results are dropped. Types are the executor's with dimension 0 for the samples;
// outputs are writable. Errors: those of Executor::Run.
Status RunPadded(Executor& executor, Padding padding, std::span<const Tensor> inputs,
                 std::span<Tensor> outputs, RunControl* control);

}  // namespace evoq
