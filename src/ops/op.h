// What an operator is: one row (OpDef) in its own file, named by one line in ops/ops.inc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/evaluator.h"
#include "graph/graph.h"
#include "ops/roles.h"

namespace evoq {

// How an operator behaves on quantized values.
enum class QuantTrait {
  kFloat,   // has no meaning on integers: its inputs are dequantized and its output is float
  kLinear,  // Conv, ConvTranspose, MatMul: exact integer arithmetic (kernels/requant.h); worth
            // quantizing
  kMove,    // only moves or selects values (Reshape, Concat, MaxPool, ...): keeps the integers; one
            // scale for in- and output
  kReal,    // Add, pooling, Mul, Resize, ...: own scale per value; quantized kernels exist
  kTable,   // a function of one value: a 256-entry table
};

// How an operator takes strings: not at all, as ranks (int64, in sorted order: for what moves or
// compares), or as they are.
enum class Strings { kNone, kRanks, kOwn };

// Inputs of type inference: types may be symbolic; `constants` hold the data of constant inputs, in
// plain layout.
struct InferArgs {
  const Node& node;
  std::span<const TensorType>
      inputs;  // dtype kUndefined for an omitted one; quantized ones appear as float32
  std::span<const Tensor* const> constants;  // nullptr when not constant
  const Evaluator& evaluator;                // for the values that subgraphs compute on the way

  bool has(size_t i) const { return i < inputs.size() && inputs[i].dtype != DType::kUndefined; }
  const Tensor* constant(size_t i) const { return i < constants.size() ? constants[i] : nullptr; }
};

// Work of one application of an operator.
struct Cost {
  int64_t macs = 0;   // multiply-accumulates; 1 MAC = 2 operations
  int64_t bytes = 0;  // inputs read once + outputs written once, at their stored width
};

struct OpDef {
  const char* name;
  const char* domain = "";
  int min_inputs = 1;
  int max_inputs = 1;  // -1: variadic
  int outputs = 1;     // the most it can have; -1: variadic
  QuantTrait quant = QuantTrait::kFloat;
  bool view =
      false;  // output 0 has the bytes of input 0 under another shape (Reshape, Identity, ...)
  bool spatial = false;  // takes channels_last=1: input 0 and output 0 are N,spatial...,C
  bool elementwise =
      false;            // output element i depends on input elements i only (after broadcasting)
  bool random = false;  // never folded
  bool containers = false;           // takes or gives sequences or optionals
  Strings strings = Strings::kNone;  // an operator with QuantTrait::kMove takes ranks in any case
  int bodies = 0;                    // subgraphs

  // Output types from input types. With channels_last, the driver converts types around it: it only
  // sees N,C,spatial...
  Result<std::vector<TensorType>> (*infer)(const InferArgs& args);
  // Multiply-accumulates; types are static. nullptr: none.
  int64_t (*macs)(const Node& node, std::span<const TensorType> inputs,
                  std::span<const TensorType> outputs) = nullptr;

  // ---- what other rooms treat it by

  std::array<Role, 6> roles = {};      // of the first inputs; all further ones are data
  const LinearForm* linear = nullptr;  // of a product
  AxisUse axes = AxisUse::kByPosition;
  int default_axis = 0;   // of attribute `axis`, where it may be left out
  int indices = -1;       // the input whose values choose what is read or written of another value:
                          // one that is out of range is an error of the run
  int alternatives = -1;  // from this input on constants of which a run reads those that `indices`
                          // choose (ops/experts.h)
  PrecisionChange conversion = PrecisionChange::kNone;
  bool ranges_at_run_time = false;   // quantizes by a range that it finds over all of its input
  bool quantizes_constants = false;  // constant operands are quantized like computed ones
  bool prefers_float = false;        // has a meaning on integers that 8 bits serve badly
};

// All operators, sorted by domain and name.
std::span<const OpDef* const> AllOps();
// nullptr when evoq lacks it.
const OpDef* FindOp(std::string_view op, std::string_view domain = "");
const OpDef* FindOp(const Node& node);

// ---- drivers. `evaluator` computes values that types depend on (shape arithmetic); what it does
// not have stays unknown. room reference has the same functions with all definitions.

// Output types of one node, with quantized outputs of `declared` kept quantized (their shape
// updated). Errors: with the node's name and operator in front.
Result<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node,
                                          std::span<const TensorType> declared,
                                          const Evaluator& evaluator);

// Infers every value in execution order. Values that a pass or the importer typed as quantized keep
// dtype and parameters and get their shape.
Status InferTypes(Graph& graph, const Evaluator& evaluator);

// Gives the graph's inputs static shapes (by input name) and infers again. A symbol takes the same
// size everywhere; a symbolic dimension of a not-named input takes 1 when it is dimension 0, else
// it is an error naming the input. Errors: kUsage for an unknown input name, a rank or a fixed size
// that differs.
Status BindShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes,
                  const Evaluator& evaluator);

// Cost of a node whose types are static.
Cost NodeCost(const Graph& graph, const Node& node);

// "node conv_1 (Conv)".
std::string NodeLabel(const Node& node);

}  // namespace evoq
