// Quantization parameters that were chosen elsewhere (QuantizeOptions::given), in a graph.
#pragma once

#include <optional>
#include <set>

#include "quant/quant.h"

namespace evoq {

inline const Reason kGivenAsFloat{"excluded", "its weights were given as floating point"};

// The given type of a value, or nullptr.
const GivenType* GivenFor(const QuantizeOptions& options, const std::string& value);

// Why a value is no integer operand: it was given as floating point or in a type that integer
// kernels do not take. Nothing for what was not given or is one.
std::optional<Reason> GivenAsOther(const std::string& value, const QuantizeOptions& options);

// Why a linear operator does not compute with integers on the weights that it was given: they are
// in blocks, of 16 bits, on another axis, or so small that the bias would overflow int32.
std::optional<Reason> GivenWeightReason(const Graph& graph, const Node& node, const Ranges& ranges,
                                        const QuantizeOptions& options);

// `weight`, float32, as the given type says. Errors: kInvalidInput where it does not fit the shape.
Result<Tensor> QuantizeGiven(const Tensor& weight, const GivenType& given);

// A constant of the given type in place of the weight `w`, whose float32 numbers are `weight`;
// noted in `report`.
Result<ValueId> AddGivenWeight(Graph& graph, ValueId w, const Tensor& weight,
                               const GivenType& given, QuantizeReport& report);
// Counts it as a weight of a node that computes in float32.
void CountWeight(const TensorType& type, QuantizeReport& report);

// Prepares a float graph for what is given:
//   * A residual sum or an activation is taken off its linear operator where its operand
//     (NAME.product, NAME.linear) has a type of its own.
//   * Constants that are no weights are rounded to theirs.
//   * An activation that no integer kernel takes (other bits) is rounded by QuantizeLinear and
//     DequantizeLinear, whose output is given as its input is: `options` learns the name.
//   * Operators that only move numbers pass their inputs' type on.
//   * `ranges` hold what the other types can represent, and lack what stays float.
// Returns the activations whose types integer arithmetic takes. Errors: kInvalidInput for a type
// that does not fit its value.
Result<std::set<ValueId>> PlaceGiven(Graph& graph, QuantizeOptions& options, Ranges& ranges,
                                     QuantizeReport& report);

// Weights of the nodes that the report has as float32 become what they were given as.
Status QuantizeFloatNodesGiven(Graph& graph, const QuantizeOptions& options,
                               QuantizeReport& report);

// Notes all given types that `report` has neither as used nor as not used: `why` it was not.
void NoteNotUsed(const QuantizeOptions& options, const std::string& why, QuantizeReport& report);

}  // namespace evoq
