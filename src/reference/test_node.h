// For tests: one operator on tensors at hand, or on types.
#pragma once

#include <gtest/gtest.h>

#include "reference/reference.h"
#include "tensor/test_attrs.h"

namespace evoq {

// A node of this operator with `inputs` present where `given` says so, and `outputs` outputs.
inline Node TestNode(const std::string& op, Attrs attrs, const std::vector<bool>& given,
                     int outputs) {
  Node node{
      .op = op, .domain = "", .name = "n", .attrs = std::move(attrs), .inputs = {}, .outputs = {}};
  for (size_t i = 0; i < given.size(); ++i)
    node.inputs.push_back(ValueId{given[i] ? static_cast<int32_t>(i) : -1});
  for (int i = 0; i < outputs; ++i) node.outputs.push_back(ValueId{100 + i});
  return node;
}

inline Result<std::vector<Tensor>> EvalAll(const std::string& op, const std::vector<Tensor>& inputs,
                                           Attrs attrs = {},
                                           std::vector<TensorType> declared = {TensorType()}) {
  std::vector<bool> given;
  for (const Tensor& t : inputs) given.push_back(t.defined());
  return EvaluateNode(TestNode(op, std::move(attrs), given, static_cast<int>(declared.size())),
                      inputs, declared);
}

// The first output.
inline Tensor Eval(const std::string& op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  auto outputs = EvalAll(op, inputs, std::move(attrs));
  EXPECT_TRUE(outputs.has_value()) << op << ": " << (outputs ? "" : outputs.error().message());
  return outputs ? (*outputs)[0] : Tensor();
}

// The message of the failure, or "" when it succeeds.
inline std::string EvalError(const std::string& op, const std::vector<Tensor>& inputs,
                             Attrs attrs = {}) {
  auto outputs = EvalAll(op, inputs, std::move(attrs));
  return outputs ? "" : outputs.error().message();
}

// The inferred type of output 0, as text; constants[i] may be undefined. Errors as their message.
inline std::string InferText(const std::string& op, const std::vector<TensorType>& inputs,
                             const std::vector<Tensor>& constants = {}, Attrs attrs = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    const bool constant = i < constants.size() && constants[i].defined();
    ids.push_back(constant                               ? graph.AddConstant(name, constants[i])
                  : inputs[i].dtype == DType::kUndefined ? ValueId{}
                                                         : graph.AddInput(name, inputs[i]));
  }
  const ValueId out = graph.Apply(op, "n", ids, std::move(attrs));
  graph.MarkOutput(out);
  if (auto status = graph.Sort(); !status) return status.error().message();
  if (auto status = InferTypes(graph); !status) return status.error().message();
  return graph.value(out).type.ToString();
}

template <typename T>
Tensor Make(Shape shape, const std::vector<T>& values) {
  return Tensor::FromValues<T>(std::move(shape), values);
}
inline Tensor Floats(Shape shape, const std::vector<float>& values) {
  return Make<float>(std::move(shape), values);
}
inline Tensor Ints(const std::vector<int64_t>& values) {
  return Make<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
}

template <typename T>
std::vector<T> Values(const Tensor& t) {
  if (!t.defined() || DTypeBits(t.dtype()) != static_cast<int>(sizeof(T) * 8)) return {};
  return std::vector<T>(t.data<T>(), t.data<T>() + t.elements());
}

}  // namespace evoq
