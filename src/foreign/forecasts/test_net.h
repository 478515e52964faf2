// Small nets with Q/DQ nodes, as the importer gives them, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "foreign/forecasts/qdq.h"
#include "reference/reference.h"

namespace evoq {

class Net {
 public:
  explicit Net(std::vector<int64_t> shape = {1, 8, 6, 6}) {
    x = graph.AddInput("x", TensorType(DType::kFloat32, Shape(shape)));
  }

  // y = DequantizeLinear(QuantizeLinear(v)), always a pair of its own.
  ValueId Pair(ValueId v, float scale, int zero = 0, DType dtype = DType::kUint8) {
    return Dequantize(Quantize(v, scale, zero, dtype));
  }
  ValueId Quantize(ValueId v, float scale, int zero = 0, DType dtype = DType::kUint8) {
    return graph.Apply(
        "QuantizeLinear", "q", {v}, {},
        TensorType(dtype, graph.value(v).type.shape, QuantParams::PerTensor(scale, zero)));
  }
  ValueId Dequantize(ValueId stored) {
    return graph.Apply("DequantizeLinear", "dq", {stored}, {},
                       TensorType(DType::kFloat32, graph.value(stored).type.shape));
  }

  // Random integers in [-100, 100] + zero behind a DequantizeLinear; scales on `axis`, or one.
  ValueId Stored(std::vector<int64_t> shape, int axis, DType dtype = DType::kInt8, int zero = 0,
                 float scale = 0.001f) {
    QuantParams params = QuantParams::PerTensor(scale, zero);
    if (axis >= 0) {
      params.axis = axis;
      params.scales.assign(shape[axis], scale);
      for (size_t i = 0; i < params.scales.size(); ++i)
        params.scales[i] *= 1 + 0.1f * static_cast<float>(i % 5);
      params.zero_points.assign(shape[axis], zero);
    }
    Tensor t = Tensor::Allocate(TensorType(dtype, Shape(shape), params));
    std::uniform_int_distribution<int> q(-100, 100);
    for (int64_t i = 0; i < t.elements(); ++i) {
      const int value = q(random_) + zero;
      if (dtype == DType::kInt32)
        t.mutable_data<int32_t>()[i] = value;
      else
        t.mutable_raw()[i] = static_cast<std::byte>(value);
    }
    return Dequantize(graph.AddConstant("stored", t));
  }

  // A 3x3 convolution to 8 channels; its value has no pair behind it.
  ValueId Conv(ValueId v, ValueId weights = {}, ValueId bias = {}) {
    const int64_t channels = graph.value(v).type.shape[1].value;
    if (!weights.valid()) weights = Stored({8, channels, 3, 3}, 0);
    Attrs attrs;
    attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
    std::vector<ValueId> inputs = {v, weights};
    if (bias.valid()) inputs.push_back(bias);
    return Op("Conv", inputs, attrs);
  }

  ValueId Op(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const ValueId y = graph.Apply(op, op, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(InferTypes(graph));
    return y;
  }
  ValueId Floats(Shape shape, std::vector<float> values) {
    return graph.AddConstant("c", Tensor::FromValues<float>(std::move(shape), values));
  }

  Graph Done(std::vector<ValueId> outputs) {
    for (ValueId y : outputs) graph.MarkOutput(y);
    EXPECT_TRUE(graph.Sort());
    EXPECT_TRUE(InferTypes(graph));
    const Status status = graph.Verify();
    EXPECT_TRUE(status) << status.error().message();
    return std::move(graph);
  }

  Graph graph;
  ValueId x;

 private:
  std::mt19937 random_{7};
};

}  // namespace evoq
