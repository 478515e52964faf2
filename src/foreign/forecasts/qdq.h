// Reading and changing where QuantizeLinear and DequantizeLinear stand in an imported graph. "Real"
// values are float32; "stored" ones are the integers between a QuantizeLinear and the
// DequantizeLinear nodes that read it.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace evoq {

// ---- questions

bool IsClamp(const Node& node);    // Relu or Clip
bool IsAverage(const Node& node);  // means of elements: pooling or ReduceMean

// The type of the integers that a QuantizeLinear writes or a DequantizeLinear reads; nullptr where
// scale and zero point are computed or their readers disagree.
const TensorType* QuantTypeOf(const Graph& graph, NodeId id);
// The type from which a real value is dequantized, nullptr where it is not.
const TensorType* ReadQuantType(const Graph& graph, ValueId real);
// The only reader of a real value, which is no graph output, when it is a QuantizeLinear; else
// invalid.
NodeId OnlyQuantizer(const Graph& graph, ValueId real);
// The type to which a real value, which is no graph output, is quantized: by all of its readers
// alike (a pair for each operator that reads it, as TensorRT wants them), or by the QuantizeLinear
// behind a Relu or Clip that alone reads it.
const TensorType* WrittenQuantType(const Graph& graph, ValueId real);
// The per-tensor type to which one of its readers quantizes a real value, nullptr where none does.
const TensorType* ReaderQuantType(const Graph& graph, ValueId real);
// The type of constant weights, input 1 of a node, nullptr where they are float or in blocks.
const TensorType* WeightQuantType(const Graph& graph, const Node& node);

// A float32 value that is computed or an input of the graph, not a constant nor a dequantized
// constant.
bool IsActivation(const Graph& graph, ValueId value);
// A constant, or a DequantizeLinear of one.
bool IsConstantLike(const Graph& graph, ValueId value);

// The smallest and largest real number of a type with per-tensor parameters.
double LowOf(const TensorType& type);
double HighOf(const TensorType& type);
// An 8-bit per-tensor type whose numbers reach from low to high, both sides of 0.
TensorType QuantTypeFor(double low, double high, DType dtype, bool symmetric, const Shape& shape);
// The same numbers of a per-tensor int8 type in uint8.
TensorType AsUint8(const TensorType& type);

// ---- changes. The caller sorts, removes dead nodes and infers types afterwards.

// `real` through a QuantizeLinear and a DequantizeLinear of these quantization parameters: the
// dequantized value, which nobody reads yet. An existing pair with the same is used.
ValueId AddPair(Graph& graph, ValueId real, const TensorType& type);
// The readers of `real` other than QuantizeLinear nodes, and the graph's outputs if `outputs`, read
// `to` instead.
void MoveReaders(Graph& graph, ValueId real, ValueId to, bool outputs);
// Readers of the DequantizeLinear read what its QuantizeLinear reads. False where that would change
// the names of the graph's outputs.
bool BypassPair(Graph& graph, NodeId dequantize);
// A stored activation gets other quantization parameters; int32 biases of weighted operators that
// read it follow its scale.
void SetQuantType(Graph& graph, ValueId stored, const TensorType& type);
// The constant behind input i of the node becomes a float32 constant. False where it is no
// dequantized constant.
bool FoldDequantized(Graph& graph, NodeId id, size_t i);
// The constant behind input i becomes `tensor` (quantized) behind a DequantizeLinear.
void ReplaceDequantized(Graph& graph, NodeId id, size_t i, Tensor tensor);
// QuantizeLinear of constants (weights with a pair of their own) become stored constants, as every
// runtime folds them; those whose type is not known, and outputs, stay.
void FoldQuantizedConstants(Graph& graph);
// The float32 value of a constant or dequantized constant; undefined for others.
Tensor RealConstant(const Graph& graph, ValueId value);
// Whether int32 biases of type `bias` are sums of products of integers of the others: scale s_x *
// s_w[c], within 1%.
bool IsBiasQuantType(const TensorType& bias, const TensorType& x, const TensorType& w);
// The bias of a weighted operator becomes int32 at s_x * s_w[c], when x and w are dequantized;
// false where they are not.
bool QuantizeBiasOf(Graph& graph, NodeId id);

}  // namespace evoq
