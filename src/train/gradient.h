// How an operator is trained: one row (GradientDef) beside its OpDef and its Definition, in its own
// file or with its family, named by one line in train/gradients.inc.
//
// Everything here is float32, in ONNX's layout, of static shapes. A batch is cut into shards, a
// fixed number of samples each, and a row sees one shard at a time: it is a plain function of the
// memory that it is given, runs on one thread, and so gives the same bits for any number of
// threads. What needs the whole batch (the statistics of BatchNormalization) goes through sums.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/isa.h"
#include "graph/graph.h"
#include "products/workspace.h"

namespace evoq {

// The memory of one node in one shard.
struct GradientRun {
  std::vector<const float*> x;   // inputs; nullptr where one is left out or holds no float32
  std::vector<float*> y;         // outputs
  std::vector<const float*> dy;  // gradients of the outputs; backward only
  // Gradients of the inputs, which backward adds to; nullptr where nobody asks for one.
  std::vector<float*> dx;
  float* saved = nullptr;          // BoundGradient::saved floats, from forward to backward
  double* sums = nullptr;          // of this shard
  const double* totals = nullptr;  // of the batch
  int64_t shards = 1;              // of the batch
  Isa isa;
  Workspace* workspace = nullptr;  // of one thread: what products work in
  AlignedBuffer* scratch = nullptr;

  // At least so many floats, of any content, until the next call.
  float* Scratch(int64_t floats) const {
    const auto bytes = static_cast<size_t>(floats) * sizeof(float);
    if (scratch->size() < bytes) *scratch = AlignedBuffer(bytes);
    return reinterpret_cast<float*>(scratch->data());
  }
};

// A row, bound to a node whose types are known.
struct BoundGradient {
  // Computes y from x, and what `saved` holds.
  std::function<void(const GradientRun&)> forward;
  // Adds to dx what x changes of the loss: sum over outputs j of dy[j] * d y[j] / d x.
  std::function<void(const GradientRun&)> backward;
  int64_t saved = 0;

  // Of an operator that needs `sums` float64 sums over the batch: each function writes those of its
  // shard before forward (backward) runs, which finds in `totals` those of all shards, added up in
  // their order.
  int64_t sums = 0;
  std::function<void(const GradientRun&)> forward_sums, backward_sums;
  // Constants that follow the batch and not its gradient, as moving averages: their inputs, and
  // what brings them up to date after a batch, from the totals of forward.
  std::vector<size_t> averages;
  std::function<void(std::span<const double> totals, int64_t shards,
                     std::span<float* const> averages)>
      average;
};

// What a row is bound to.
struct GradientArgs {
  const Node& node;
  std::span<const TensorType> x, y;          // static; dtype kUndefined for an omitted input
  std::span<const Tensor* const> constants;  // inputs that are known and not trained, else nullptr
};

struct GradientDef {
  const char* op;
  const char* domain = "";
  // Inputs that may have a gradient, as bits; a constant there is a parameter that is trained.
  uint32_t differentiable = 1;
  // Inputs at which a constant of one element is trained too, as bits: one among data is a number
  // of the formula elsewhere.
  uint32_t single = 0;
  // Inputs whose constants are data, as bits, and no parameters: the state that a sequence begins
  // with.
  uint32_t given = 0;
  // Inputs that may be integers which are not known before training, as bits. They lie in memory as
  // float32 numbers.
  uint32_t integers = 0;
  // Inputs at which the row takes a quantized constant as it is, as bits: GradientRun::x has
  // nullptr there. At others a quantized constant is dequantized before training.
  uint32_t quantized = 0;
  // Whether a constant at this input is trained.
  bool TrainsConstant(size_t input) const {
    return input < 32 && ((differentiable & ~given) >> input & 1) != 0;
  }
  // Errors: kUnsupported for what the gradient is not written for, without the node's label.
  Result<BoundGradient> (*bind)(const GradientArgs& args);
};

// In the order of names.
std::span<const GradientDef* const> AllGradients();
// nullptr where evoq cannot train the operator.
const GradientDef* FindGradient(const Node& node);

}  // namespace evoq
