// How an operator is evaluated: one row (Definition) in namespace evoq::reference, named as the
// operator's row in ops/ops.inc, which lists both.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace evoq {

using EvalResult = Result<std::vector<Tensor>>;

// Inputs of evaluation: plain tensors with static types; an omitted one is an undefined Tensor.
struct EvalArgs {
  const Node& node;
  std::span<const Tensor> inputs;
  std::span<const TensorType>
      output_types;  // as inferred; dtype kUndefined where nobody reads the output

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
};

struct Definition {
  const char* name;
  const char* domain = "";
  // The definition on real values, in plain C++: float32 in, float32 out (integers for integer
  // operators). Never sees quantized types (but for kMove, whose inputs may be integers) nor
  // channels_last: the driver converts.
  EvalResult (*evaluate)(const EvalArgs& args);
  // The exact integer definition where it is not "dequantize, compute, quantize": all inputs and
  // outputs as they are. nullptr where there is none. Returns kUnsupported for a combination of
  // types that has no integer definition: the driver then dequantizes.
  EvalResult (*evaluate_quantized)(const EvalArgs& args) = nullptr;
};

// Evaluates a node of operator `op` by its definition; handles quantized types and channels_last as
// described at Definition. `evaluator` infers the types of subgraphs. Errors: with the node's name
// and operator in front.
EvalResult EvaluateBy(const OpDef& op, const Definition& definition, const Evaluator& evaluator,
                      const Node& node, std::span<const Tensor> inputs,
                      std::span<const TensorType> output_types);

}  // namespace evoq
