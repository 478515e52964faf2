// What passes ask of a graph, and the small rewrites that they share.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "kernels/activation.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "reference/util.h"

namespace evoq {

// ---- questions

// The operator of a node, which exists: types have been inferred before a pass runs.
const OpDef& OpOf(const Node& node);

// A copy of the execution order without held nodes (ops/held.h): what a pass that edits walks.
// Nodes may die on the way: ask graph.alive.
std::vector<NodeId> NodesOf(const Graph& graph);

// A live node of this operator.
bool IsOp(const Graph& graph, NodeId id, std::string_view op, std::string_view domain = "");

// The node that computes `value` when it is this operator, else an invalid id.
NodeId ProducedBy(const Graph& graph, ValueId value, std::string_view op,
                  std::string_view domain = "");

// The node that computes `value` for one reader alone, when it is this operator and has no
// activation; else an invalid id.
NodeId InnerNode(const Graph& graph, ValueId value, std::string_view op);

// The only reader of the node's output 0 (which is no graph output), or an invalid id.
NodeId OnlyReader(const Graph& graph, NodeId id);

// A plain (not quantized, not packed) float32 constant, or nullptr.
const Tensor* FloatConstant(const Graph& graph, ValueId value);
// The value of a float32 constant with one element.
std::optional<float> ScalarOf(const Graph& graph, ValueId value);
// A float32 constant whose elements are all equal: their value.
std::optional<float> UniformOf(const Graph& graph, ValueId value);
// The elements of an integer constant of at most 4096 elements.
std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, ValueId value);

// Equal for certain: same rank, and every dimension has the same size or the same non-empty symbol.
bool SameShape(const Shape& a, const Shape& b);
bool SameDim(const Dim& a, const Dim& b);

// Same dtype and parameters, whatever the shapes: the integers mean the same.
bool SameQuant(const TensorType& a, const TensorType& b);
// 8-bit integers with one scale: what quantized activations are.
bool IsByteQuantized(const TensorType& type);

// The piecewise linear or tabulated function that the node computes of its input 0, when it is one
// that linear operators fuse: Relu, Clip with constant bounds, LeakyRelu, HardSwish, Silu, Sigmoid,
// Tanh, exact Gelu.
std::optional<Activation> ActivationOf(const Graph& graph, const Node& node);
bool HasActivation(const Node& node);

// The constant target of a Reshape from shape `from` to shape `to` (0 copies a dimension, one -1),
// or nothing when the shapes leave it open.
std::optional<std::vector<int64_t>> ReshapeTarget(const Shape& from, const Shape& to);

// A value as a product: constant * factors[0] * factors[1] * ..., through Mul and division by
// scalars that nothing else reads. The factors of a value that is no product are the value itself.
struct Product {
  double constant = 1;
  std::vector<ValueId> factors;
};
Product ProductOf(const Graph& graph, ValueId value);
bool Near(double value,
          double expected);  // within a relative 1e-4: constants that exporters rounded

// float32 and not quantized.
bool IsPlainFloat(const Graph& graph, ValueId value);

// ---- rewrites

// How many changes `change(graph, id)` makes over the live nodes, in that order.
template <typename Change>
int CountChanges(Graph& graph, const Change& change) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (graph.alive(id)) changes += change(graph, id);
  }
  return changes;
}

ValueId AddInts(Graph& graph, std::string name, const std::vector<int64_t>& values);
ValueId AddFloat(Graph& graph, std::string name, float value);

// `into` computes what `tail`, the only reader of into's output 0, computed: `tail` goes and its
// output 0, with name and type, becomes into's.
void Absorb(Graph& graph, NodeId into, NodeId tail);

// Readers of the node's output 0 read `value` instead, where that keeps the names and kinds of the
// graph's outputs. False, and nothing changed, where it does not.
bool ReplaceOutput(Graph& graph, NodeId id, ValueId value);

// Moves node `id`'s output 0 to a new operator on new inputs; the old node goes.
NodeId ReplaceNode(Graph& graph, NodeId id, std::string op, std::string domain,
                   std::vector<ValueId> inputs, Attrs attrs = {});

// ---- permutations: y[i0, i1, ...] = x[...] with y's axis k being x's axis perm[k], as in
// Transpose

using Permutation = std::vector<int64_t>;
bool IsIdentity(const Permutation& perm);
Permutation Inverse(const Permutation& perm);
// Transpose by `first`, then by `second`, as one.
Permutation Compose(const Permutation& first, const Permutation& second);
// 0, 2, ..., rank-1, 1: channels last.
Permutation ChannelsLast(int rank);
// The perm of a Transpose (its default reverses), or nothing when the rank is unknown.
std::optional<Permutation> PermutationOf(const Graph& graph, const Node& transpose);
Shape Permuted(const Shape& shape, const Permutation& perm);
// Type with shape and quantization parameters permuted.
TensorType Permuted(const TensorType& type, const Permutation& perm);
// Plain data, no strings.
bool CanPermute(const Tensor& tensor);
// The data moved. Needs CanPermute.
Tensor Permuted(const Tensor& tensor, const Permutation& perm);
// Only dimensions of size 1 change places: a Transpose that moves no byte.
bool MovesNothing(const Shape& shape, const Permutation& perm);

}  // namespace evoq
