// What layers' inputs are like over the calibration samples: the matrices X^T X, of which the error
// that rounding a layer's weight causes in its results is a quadratic form.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quant/method.h"
#include "quant/weight_grid.h"

namespace evoq {

// Of one layer: its inputs x as rows of X (of a convolution the patches that its windows see, of
// each group on its own). `values` of group g is [depth, depth], row-major: sums over all rows of
// x[i] x[j]. x is rounded to about 15 bits of its largest magnitude first, and the sums are exact:
// they depend neither on the order of samples nor on threads.
struct Gram {
  int64_t depth = 0;
  int64_t rows = 0;  // of X
  std::vector<std::vector<double>> groups;
  // What the float model gives: sums of x[i] y[j], y the layer's results in the float model less
  // those that it gives with its float weight on these inputs; [depth, columns] of each group. A
  // layer that adds a residual makes up for the residual's error too.
  std::vector<std::vector<double>> missing;
};

// Gives the quantized form of a layer's weight.
using RoundLayerFn = std::function<Result<Tensor>(const WeightRounding& rounding,
                                                  const LayerMatrices& matrices, const Gram& gram)>;

// Rounds what the scheme rounds, layer by layer in the order of the graph, into run.rounded: each
// layer sees the inputs that it has with the weights before it as they were rounded. Layers are
// observed a few at a time, so that Gram matrices take no more memory than the weights, or one of
// them. The refitted weights bring the means of the float model back, so that
// correct_bias is not to do it again. Weights that are no matrices of a layer (tables, transposed
// convolutions) are left to the scheme; of a weight that several layers read, the first layer's
// inputs count. Errors: those of running the graph; kInvalidInput where there is no sample, or a
// value is not finite.
Status RoundLayers(MethodRun& run, const RoundLayerFn& round);

// Hands out the same layers, in the same order, with what their inputs are like in the float model
// (Gram::missing is empty), and changes nothing. Errors: those of RoundLayers and of `use`.
using UseLayerFn = std::function<Status(const WeightRounding& rounding,
                                        const LayerMatrices& matrices, const Gram& gram)>;
Status ObserveLayers(MethodRun& run, const UseLayerFn& use);

}  // namespace evoq
