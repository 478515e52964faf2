// Short ways to build tensors and run one operator, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference/reference.h"
#include "reference/util.h"

namespace evoq {

inline Tensor Floats(Shape shape, const std::vector<float>& values) {
  return Tensor::FromValues<float>(std::move(shape), values);
}

// start, then each element `step` more than the one before, wrapping at 17 steps.
inline Tensor Sequence(Shape shape, float step) {
  std::vector<float> values(*shape.elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7) % 17) * step;
  return Floats(std::move(shape), values);
}

template <typename T>
Tensor Quantized(Shape shape, const std::vector<T>& values, QuantParams quant) {
  const Tensor plain = Tensor::FromValues<T>(shape, values);
  return plain.WithType(TensorType(plain.dtype(), shape, std::move(quant)));
}

template <typename T = float>
std::vector<T> ToVector(const Tensor& tensor) {
  EXPECT_EQ(tensor.dtype(), DTypeOf<T>::value);
  return {tensor.data<T>(), tensor.data<T>() + tensor.elements()};
}

// A node with `inputs` inputs and one output, whose ids mean nothing.
inline Node NodeOf(std::string op, int inputs, Attrs attrs = {}, std::string domain = "") {
  Node node{
      .op = std::move(op), .domain = std::move(domain), .name = "node", .attrs = std::move(attrs)};
  for (int i = 0; i < inputs; ++i) node.inputs.push_back(ValueId{i});
  node.outputs = {ValueId{inputs}};
  return node;
}

inline Attrs WithAttrs(std::initializer_list<std::pair<const char*, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.Set(name, value);
  return attrs;
}

inline bool Ok(const Status& status) {
  if (!status) ADD_FAILURE() << status.error().message();
  return status.has_value();
}

// Output 0 of a node; `type` is what it is declared as. Fails the test and gives an undefined
// tensor on an error.
inline Tensor Eval(const Node& node, const std::vector<Tensor>& inputs, TensorType type = {}) {
  const std::vector<TensorType> types = {std::move(type)};
  auto outputs = EvaluateNode(node, inputs, types);
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message();
    return {};
  }
  return (*outputs)[0];
}

// The message of the error that evaluation must give.
inline std::string EvalError(const Node& node, const std::vector<Tensor>& inputs,
                             TensorType type = {}) {
  const std::vector<TensorType> types = {std::move(type)};
  auto outputs = EvaluateNode(node, inputs, types);
  return outputs ? "no error" : outputs.error().message();
}

}  // namespace evoq
