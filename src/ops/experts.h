// Mixtures of experts: which of several values or matrices counts is chosen at run time, for each
// row by itself.
#pragma once

#include "ops/op.h"

namespace evoq {

// evoq::ExpertMatMul(x, ids, w_0, ..., w_E-1, bias_0, ..., bias_E-1), E = attribute `experts`, the
// biases all or none: x float[.., 1 or J, K], ids integer[.., J] of [0, E), w_e [K, N], bias_e [N];
//   y[.., j, :] = x[.., j or 0, :] w_e + bias_e, e = ids[.., j]
// with the attributes data_block and output_dtype as MatMul has them. Matrices that no element of
// ids names are not read.
inline constexpr char kExperts[] = "experts";
inline constexpr size_t kExpertData = 0, kExpertIds = 1, kFirstExpert = 2;

// evoq::ChooseExpert(ids, x_0, ..., x_E-1): x_e [.., 1 or J, N];
//   y[.., j, :] = x_e[.., j or 0, :], e = ids[.., j]
// With products x_e of the same data it is ExpertMatMul: pass expert-products.

// How rows of an ExpertMatMul lie, or of a ChooseExpert: `rows` elements of ids; row r reads row r
// / share of the data. Shapes are static.
struct ExpertRows {
  int64_t rows = 0, share = 1, experts = 0;
};
ExpertRows ExpertRowsOf(const Shape& data, const Shape& ids, int64_t experts);

// Of inputs of which a run reads only those that indices choose (OpDef::alternatives), the most
// that `inputs`' static shapes let it read, of how many there are; {1, 1} for other operators.
struct ReadShare {
  int64_t read = 1, of = 1;
};
ReadShare ReadShareOf(const Node& node, std::span<const TensorType> inputs);

}  // namespace evoq
