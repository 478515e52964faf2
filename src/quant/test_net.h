// Small nets, samples and error measures for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {

// A graph from text, its float32 constants normal(0, deviation) by a seed, types inferred.
inline Graph MakeNet(std::string_view text, float deviation = 0.3f, int seed = 1) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  for (int i = 0; i < graph->value_count(); ++i) {
    const Value& value = graph->value(ValueId{i});
    if (!value.is_constant() || value.constant.dtype() != DType::kFloat32 ||
        value.constant.elements() <= 1)
      continue;
    Tensor t = Tensor::Allocate(value.type);
    for (int64_t k = 0; k < t.elements(); ++k) t.mutable_data<float>()[k] = normal(random);
    graph->SetConstant(ValueId{i}, t);
  }
  auto status = InferTypes(*graph);
  EXPECT_TRUE(status) << status.error().message();
  return std::move(*graph);
}

inline Tensor RandomInput(const Graph& graph, int seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  Tensor t = Tensor::Allocate(graph.value(graph.inputs()[0]).type);
  for (int64_t k = 0; k < t.elements(); ++k) t.mutable_data<float>()[k] = normal(random);
  return t;
}

inline PrepareFn Reference() {
  return [](const Graph& graph) -> Result<RunFn> {
    return RunFn([graph](std::span<const Tensor> inputs) { return EvaluateGraph(graph, inputs); });
  };
}

inline SamplesFn RandomSamples(const Graph& graph, int count) {
  return [&graph, count](const std::function<Status(std::span<const Tensor>)>& body) -> Status {
    for (int i = 0; i < count; ++i) {
      const Tensor input = RandomInput(graph, 100 + i);
      EVOQ_TRY(body(std::span(&input, 1)));
    }
    return {};
  };
}

// 10 log10(sum x^2 / sum (x - y)^2) over the first outputs of both graphs on samples other than the
// calibration's.
inline double Sqnr(const Graph& wanted, const Graph& got, int samples = 4) {
  double signal = 0, noise = 0;
  for (int i = 0; i < samples; ++i) {
    const Tensor input = RandomInput(wanted, 1000 + i);
    auto x = EvaluateGraph(wanted, std::span(&input, 1)),
         y = EvaluateGraph(got, std::span(&input, 1));
    EXPECT_TRUE(x) << x.error().message();
    EXPECT_TRUE(y) << y.error().message();
    if (!x || !y) return -INFINITY;
    for (int64_t k = 0; k < (*x)[0].elements(); ++k) {
      const double a = (*x)[0].data<float>()[k], b = (*y)[0].data<float>()[k];
      signal += a * a;
      noise += (a - b) * (a - b);
    }
  }
  return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
}

inline constexpr char kConvNet[] = R"(graph net
input %x: float32[1, 3, 12, 12]
const %w1: float32[8, 3, 3, 3]
const %b1: float32[8]
stem: %s: float32[1, 8, 12, 12] = Conv{activation="Relu", pads=[1, 1, 1, 1]}(%x, %w1, %b1)
const %w2: float32[8, 1, 3, 3]
depthwise: %d: float32[1, 8, 12, 12] = Conv{activation="Clip", activation_alpha=0.0, activation_beta=6.0, group=8, pads=[1, 1, 1, 1]}(%s, %w2)
const %w3: float32[8, 8, 1, 1]
const %b3: float32[8]
project: %p: float32[1, 8, 12, 12] = Conv(%d, %w3, %b3, %s)
pool: %m: float32[1, 8, 6, 6] = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%p)
const %w4: float32[16, 8, 3, 3]
const %b4: float32[16]
last: %l: float32[1, 16, 4, 4] = Conv{activation="Silu"}(%m, %w4, %b4)
mean: %g: float32[1, 16, 1, 1] = GlobalAveragePool(%l)
const %shape: int64[2] = [1, 16]
flat: %f: float32[1, 16] = Reshape(%g, %shape)
const %w5: float32[16, 10]
const %b5: float32[10]
classes: %c: float32[1, 10] = MatMul(%f, %w5, %b5)
output %c
)";

}  // namespace evoq
